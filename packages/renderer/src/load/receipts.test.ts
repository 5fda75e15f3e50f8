import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { receiptFile } from '@sluice/bundle';
import { afterAll, expect, test } from 'vitest';
import { findReceipts } from './receipts.ts';

const dir = mkdtempSync(join(tmpdir(), 'sluice-receipts-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test('keeps the newest receipts of each node across folders', () => {
  const folders = ['monday', 'tuesday'].map((name) => join(dir, name));
  for (const folder of folders) mkdirSync(folder);
  for (let number = 1; number <= 500; number++)
    for (const node of ['node-a', 'node-b'])
      writeFileSync(join(folders[(number * 7) % 2] as string, receiptFile({ node, number })), '');
  const found = findReceipts(dir);
  if ('why' in found) throw new Error(found.why);
  expect([...found.keys()].toSorted()).toEqual(['node-a', 'node-b']);
  for (const paths of found.values()) expect(paths.map(({ number }) => number)).toEqual([500, 499, 498, 497]);
});

test('reads a clone as a folder of receipts and ignores .git', () => {
  const clone = join(dir, 'clone');
  mkdirSync(join(clone, '.git/objects/a/b/c/d'), { recursive: true });
  writeFileSync(join(clone, '.git', receiptFile({ node: 'node-z', number: 1 })), '');
  writeFileSync(join(clone, receiptFile({ node: 'node-a', number: 1 })), '');
  const found = findReceipts(clone);
  expect('why' in found ? found : [...found.keys()]).toEqual(['node-a']);
});

test('reports a folder that is too deep with a hint', () => {
  const deep = join(dir, 'deep/a/b/c/d/e');
  mkdirSync(deep, { recursive: true });
  expect(findReceipts(join(dir, 'deep'))).toEqual({
    why: `${deep} is nested deeper than 4 levels`,
    hint: expect.stringContaining('Pass the folder of the receipts'),
  });
});
