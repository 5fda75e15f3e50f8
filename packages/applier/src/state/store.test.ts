import { existsSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { StateError } from './state-error.ts';
import { Store } from './store.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-store-`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

test('rewrites a text that the disk cannot read', () => {
  const [digest = ''] = new Store(directory).put(['rules']);
  rmSync(`${directory}/${digest}`);
  // Its first page is not mapped: every read of it fails with EIO, as that of a bad sector.
  symlinkSync('/proc/self/mem', `${directory}/${digest}`);
  const store = new Store(directory);
  expect(store.has(digest)).toBe(true);
  expect(store.get(digest)).toBeUndefined();
  expect(store.put(['rules'])).toEqual([digest]);
  expect(store.get(digest)).toBe('rules');
});

test('a text that waits for the disk is read at once, and stored again after the disk did not take it', () => {
  const store = new Store(directory);
  const [digest = ''] = store.put(['rules'], false);
  expect([store.get(digest), new Store(directory).get(digest)]).toEqual(['rules', 'rules']);
  const path = `${directory}/${digest}`;
  renameSync(path, `${directory}/aside`);
  expect(() => store.sync()).toThrow(StateError);
  // The kernel takes lost pages for clean after that: no second sync must be believed.
  expect(store.has(digest)).toBe(false);
  store.sync();
  store.put(['rules']);
  expect(store.get(digest)).toBe('rules');
});

test('a text that is to be on the disk takes those along that waited', () => {
  const store = new Store(directory);
  const [waiting = ''] = store.put(['one'], false);
  renameSync(`${directory}/${waiting}`, `${directory}/aside`);
  expect(() => store.put(['two'])).toThrow(StateError);
});

test('retries a read that fails once', () => {
  const [digest = ''] = new Store(directory).put(['rules']);
  const path = `${directory}/${digest}`;
  renameSync(path, `${directory}/aside`);
  symlinkSync('/proc/self/mem', path);
  let pauses = 0;
  const store = new Store(directory, {
    pause: () => {
      pauses += 1;
      if (pauses === 2) renameSync(`${directory}/aside`, path);
    },
  });
  expect(store.get(digest)).toBe('rules');
  expect([pauses, store.has(digest)]).toEqual([2, true]);
});

test('waits once for a broken disk, not for each text', () => {
  const digests = new Store(directory).put(['one', 'two', 'three']);
  for (const digest of digests) {
    rmSync(`${directory}/${digest}`);
    symlinkSync('/proc/self/mem', `${directory}/${digest}`);
  }
  let pauses = 0;
  const store = new Store(directory, { pause: () => void (pauses += 1) });
  expect(digests.map((digest) => store.get(digest))).toEqual([undefined, undefined, undefined]);
  expect(pauses).toBe(limits.readAttemptsMax - 1);
});

test('still retries after a missing text', () => {
  const [gone = '', digest = ''] = new Store(directory).put(['gone', 'rules']);
  rmSync(`${directory}/${gone}`);
  const path = `${directory}/${digest}`;
  renameSync(path, `${directory}/aside`);
  symlinkSync('/proc/self/mem', path);
  const store = new Store(directory, { pause: () => renameSync(`${directory}/aside`, path) });
  expect([store.get(gone), store.get(digest)]).toEqual([undefined, 'rules']);
});

test('does not count a text without permission as damaged', () => {
  const [digest = ''] = new Store(directory).put(['rules']);
  rmSync(`${directory}/${digest}`);
  // No process may read it, not even one of root.
  symlinkSync('/proc/sys/vm/drop_caches', `${directory}/${digest}`);
  const store = new Store(directory);
  expect(() => store.get(digest)).toThrow(StateError);
  expect(store.has(digest)).toBe(true);
});

test('ignores partial files', () => {
  writeFileSync(`${directory}/abc.tmp`, 'half');
  expect(new Store(directory).digests).toEqual([]);
  expect(existsSync(`${directory}/abc.tmp`)).toBe(false);
});
