import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { allocationPath, printAllocation } from '../load/allocations.ts';
import type { Allocation } from '../render/allocate/allocation.ts';
import { removeAllocations, writeAllocations } from './allocations.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-allocations-'));
  mkdirSync(join(dir, 'elsewhere'));
  writeFileSync(join(dir, 'elsewhere/secret'), 'a secret\n');
});
afterEach(() => rmSync(dir, { recursive: true }));

const web: Allocation = { namespace: 'shop', name: 'web', file: '', clusterIPs: ['10.96.0.31'], nodePorts: {} };

test('writes an allocation and creates its folders', () => {
  writeAllocations(join(dir, 'a/b'), [web]);
  expect(readFileSync(join(dir, 'a/b', allocationPath(web)), 'utf8')).toBe(printAllocation(web));
});

test('does not write through a link at the temporary name', () => {
  mkdirSync(join(dir, 'shop'));
  symlinkSync('../elsewhere/secret', join(dir, 'shop/.web.unfinished'));
  writeAllocations(dir, [web]);
  expect(readFileSync(join(dir, 'elsewhere/secret'), 'utf8')).toBe('a secret\n');
  expect(readFileSync(join(dir, 'shop/web.yaml'), 'utf8')).toBe(printAllocation(web));
});

test('refuses a link in place of the folder of a namespace', () => {
  symlinkSync('elsewhere', join(dir, 'shop'));
  expect(() => writeAllocations(dir, [web])).toThrow('EEXIST');
  expect(readdirSync(join(dir, 'elsewhere'))).toEqual(['secret']);
});

test('removes allocations and the folders that become empty, and nothing else', () => {
  const [api, other] = [
    { ...web, name: 'api' },
    { ...web, namespace: 'other' },
  ];
  writeAllocations(dir, [web, api, other]);
  writeFileSync(join(dir, 'README'), 'notes\n');
  removeAllocations(dir, [web, other]);
  expect(readdirSync(dir).toSorted()).toEqual(['README', 'elsewhere', 'shop']);
  expect(readdirSync(join(dir, 'shop'))).toEqual(['api.yaml']);
});
