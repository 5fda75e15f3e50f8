import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { makeFolder } from './folder.ts';

let dir: string;
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'sluice-folder-'))));
afterEach(() => rmSync(dir, { recursive: true }));

test('creates a folder with its parents, and accepts an existing one', () => {
  makeFolder(join(dir, 'a/b/c'));
  makeFolder(join(dir, 'a/b/c'));
  expect(statSync(join(dir, 'a/b/c')).isDirectory()).toBe(true);
});

test('accepts a link to a folder', () => {
  makeFolder(join(dir, 'real'));
  symlinkSync('real', join(dir, 'link'));
  makeFolder(join(dir, 'link/a'));
  expect(statSync(join(dir, 'real/a')).isDirectory()).toBe(true);
});

test.each([
  ['a file', 'EEXIST', () => (writeFileSync(join(dir, 'file'), ''), join(dir, 'file'))],
  ['below a file', 'EEXIST', () => (writeFileSync(join(dir, 'file'), ''), join(dir, 'file/a'))],
  ['a link to nothing', 'EEXIST', () => (symlinkSync('nothing', join(dir, 'link')), join(dir, 'link'))],
  ['below /proc', 'ENOENT', () => '/proc/sluice/a'],
])('cannot create a folder in place of %s', (_title, code, path) => {
  expect(() => makeFolder(path())).toThrow(code);
});
