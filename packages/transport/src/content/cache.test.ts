import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { BlobCache } from './cache.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-cache-'));
const dir = join(scratch, 'cache');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
beforeEach(() => rmSync(dir, { recursive: true, force: true }));

const bytes = Buffer.from('a layer');
const hex = fileDigest(bytes);
const digest = `sha256:${hex}`;
const other = `sha256:${fileDigest('another')}`;

test('gives what was put there, also to another process', () => {
  new BlobCache(dir).put(digest, bytes);
  expect(new BlobCache(dir).get(digest, 100)).toEqual(bytes);
  expect(new BlobCache(dir).get(other, 100)).toBeUndefined();
});

test('has nothing without a directory', () => {
  const cache = new BlobCache(dir);
  expect(cache.get(digest, 100)).toBeUndefined();
  cache.prune(new Set());
  expect(readdirSync(scratch)).toEqual([]);
});

test.each<[what: string, damage: (path: string) => void]>([
  ['changed', (path) => writeFileSync(path, 'b layer')],
  ['truncated', (path) => writeFileSync(path, 'a')],
  ['larger than the limit', (path) => writeFileSync(path, Buffer.alloc(101))],
  ['replaced by a link', (path) => (rmSync(path), symlinkSync('/dev/zero', path))],
  ['replaced by a directory', (path) => (rmSync(path), mkdirSync(path))],
])('does not give a file that was %s', (_what, damage) => {
  const cache = new BlobCache(dir);
  cache.put(digest, bytes);
  damage(join(dir, hex));
  expect(cache.get(digest, 100)).toBeUndefined();
});

test('keeps what it is told, and removes the rest of an interrupted write', () => {
  const cache = new BlobCache(dir);
  cache.put(digest, bytes);
  cache.put(other, Buffer.from('another'));
  writeFileSync(join(dir, 'x.tmp'), 'a la');
  cache.prune(new Set([digest]));
  expect(readdirSync(dir)).toEqual([hex]);
});

test('refuses names that are no digests', () => {
  expect(() => new BlobCache(dir).get('../../etc/passwd', 100)).toThrow('is not a digest');
});
