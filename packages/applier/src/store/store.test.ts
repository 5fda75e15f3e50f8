import { existsSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Store } from './store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-store-`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('a text that the disk does not give back is like one that was damaged, and is written anew', () => {
  const [digest = ''] = new Store(directory).put(['rules']);
  rmSync(`${directory}/${digest}`);
  // Its first page is nobody's: every read of it fails with EIO, as that of a bad sector.
  symlinkSync('/proc/self/mem', `${directory}/${digest}`);
  const store = new Store(directory);
  expect(store.has(digest)).toBe(true);
  expect(store.get(digest)).toBeUndefined();
  expect(store.put(['rules'])).toEqual([digest]);
  expect(store.get(digest)).toBe('rules');
});

test('what a process left half written is no text of the store', () => {
  writeFileSync(`${directory}/abc.tmp`, 'half');
  expect(new Store(directory).digests).toEqual([]);
  expect(existsSync(`${directory}/abc.tmp`)).toBe(false);
});
