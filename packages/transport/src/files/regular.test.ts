import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { readRegular } from './regular.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-regular-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

test('reads a file up to the limit', () => {
  writeFileSync(at('file'), 'four');
  expect(String(readRegular(at('file'), 4))).toBe('four');
  expect(readRegular(at('file'), 3)).toBe('it is larger than 3 bytes');
  expect(readRegular(at('nothing'), 4)).toBeUndefined();
});

test('reads a file that has no size, as in /proc', () => {
  const status = String(readRegular('/proc/self/status', 1_000_000));
  expect(status).toMatch(/^Name:.*[^]*nonvoluntary_ctxt_switches:.*\n$/);
  expect(readRegular('/proc/self/status', 10)).toBe('it is larger than 10 bytes');
});

test.each<[what: string, make: (path: string) => void]>([
  ['a link', (path) => symlinkSync(at('file'), path)],
  ['a link to nothing', (path) => symlinkSync(at('nowhere'), path)],
  ['a link to a device', (path) => symlinkSync('/dev/zero', path)],
  ['a pipe without a writer', (path) => void execFileSync('mkfifo', [path])],
  ['a folder', (path) => mkdirSync(path)],
])('refuses %s without blocking', (what, make) => {
  writeFileSync(at('file'), 'four');
  make(at(what));
  expect(readRegular(at(what), 4)).toBe('it is not a regular file');
});
