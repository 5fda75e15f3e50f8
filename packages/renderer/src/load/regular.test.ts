import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readRegular } from './regular.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-regular-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test('a file is read up to the limit, and not beyond', () => {
  writeFileSync(at('file'), 'four');
  expect(String(readRegular(at('file'), 4))).toBe('four');
  expect(readRegular(at('file'), 3)).toBe('it is larger than 3 bytes');
  expect(readRegular(at('nothing'), 4)).toBeUndefined();
});

test.each<[what: string, make: (path: string) => void]>([
  ['a link', (path) => symlinkSync(at('file'), path)],
  ['a link to nothing', (path) => symlinkSync(at('nowhere'), path)],
  ['a link without end', (path) => symlinkSync('/dev/zero', path)],
  ['a pipe that nobody writes to', (path) => void execFileSync('mkfifo', [path])],
  ['a folder', (path) => mkdirSync(path)],
])('%s is not read, and nobody waits for it', (what, make) => {
  writeFileSync(at('file'), 'four');
  make(at(what));
  expect(readRegular(at(what), 4)).toBe('it is not a regular file');
});
