import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { receiptFile } from '@sluice/bundle';
import { afterAll, expect, test } from 'vitest';
import { findReceipts } from './receipts.ts';

const dir = mkdtempSync(join(tmpdir(), 'sluice-receipts-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test('of each node the newest few are kept, in whatever order and folder they lie', () => {
  const folders = ['monday', 'tuesday'].map((name) => join(dir, name));
  for (const folder of folders) mkdirSync(folder);
  for (let number = 1; number <= 500; number++)
    for (const node of ['node-a', 'node-b'])
      writeFileSync(join(folders[(number * 7) % 2] as string, receiptFile({ node, number })), '');
  const found = findReceipts(dir);
  if (typeof found === 'string') throw new Error(found);
  expect([...found.keys()].toSorted()).toEqual(['node-a', 'node-b']);
  for (const paths of found.values()) expect(paths.map(({ number }) => number)).toEqual([500, 499, 498, 497]);
});
