import { hash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Blobs } from './blobs.ts';
import { serveLimits } from './limits.ts';

let dir: string;
let blobs: Blobs;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-blobs-'));
  mkdirSync(join(dir, 'blobs/sha256'), { recursive: true });
  blobs = new Blobs({ dir } as never);
});
afterEach(() => rmSync(dir, { recursive: true }));

const pathOf = (digest: string): string => join(dir, 'blobs', digest.replace(':', '/'));

/** @returns its digest */
function put(bytes: Buffer): string {
  const digest = `sha256:${hash('sha256', bytes, 'hex')}`;
  writeFileSync(pathOf(digest), bytes);
  return digest;
}

/** The text of a blob, and where it was. */
async function got(digest: string): Promise<string> {
  const blob = await blobs.get(digest);
  if (blob === undefined) return 'none';
  if ('bytes' in blob) return `memory ${blob.bytes.toString('latin1')}`;
  await using file = blob.file;
  return `file of ${blob.size} ${(await file.readFile()).subarray(0, 4).toString('latin1')}`;
}

test('a small blob stays in memory', async () => {
  const digest = put(Buffer.from('rules'));
  expect(await Promise.all([got(digest), got(digest)])).toEqual(['memory rules', 'memory rules']);
  rmSync(pathOf(digest));
  expect(await got(digest)).toBe('memory rules');
});

test('a large one is read each time', async () => {
  const digest = put(Buffer.alloc(serveLimits.keptBlobBytesMax + 1, 'x'));
  expect(await got(digest)).toBe(`file of ${serveLimits.keptBlobBytesMax + 1} xxxx`);
  rmSync(pathOf(digest));
  expect(await got(digest)).toBe('none');
});

test('a damaged one is served as it is, and right once its file is mended', async () => {
  const digest = put(Buffer.from('rules'));
  writeFileSync(pathOf(digest), 'ruins');
  expect(await got(digest)).toBe('file of 5 ruin');
  writeFileSync(pathOf(digest), 'rules');
  expect(await got(digest)).toBe('memory rules');
});

test('one that is missing is looked for again', async () => {
  const digest = put(Buffer.from('rules'));
  rmSync(pathOf(digest));
  expect(await got(digest)).toBe('none');
  put(Buffer.from('rules'));
  expect(await got(digest)).toBe('memory rules');
});

test('beyond the bound, those that were asked for longest ago go', async () => {
  const count = serveLimits.keptBytesMax / serveLimits.keptBlobBytesMax;
  const digests = Array.from({ length: count + 1 }, (_, at) => put(Buffer.alloc(serveLimits.keptBlobBytesMax, at)));
  const [first = '', second = ''] = digests;
  for (const digest of digests.slice(0, -1)) await got(digest);
  await got(first);
  await got(digests.at(-1) ?? '');
  for (const digest of digests) rmSync(pathOf(digest));
  expect((await got(first)).slice(0, 6)).toBe('memory');
  expect(await got(second)).toBe('none');
});
