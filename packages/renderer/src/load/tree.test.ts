import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { openTree, readText, readTree } from './tree.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-tree-'));
  mkdirSync(join(dir, 'nodes/node-1'), { recursive: true });
  writeFileSync(join(dir, 'cluster.yaml'), 'a\n');
  writeFileSync(join(dir, 'nodes/node-1/node.yaml'), 'b\n');
});
afterEach(() => rmSync(dir, { recursive: true }));

test('an open tree has the same files as a read one, with every method of Map', () => {
  const open = openTree(dir) as Map<string, string>;
  const read = readTree(dir) as Map<string, string>;
  expect(read.size).toBe(2);
  expect([...open]).toEqual([...read]);
  expect([...open.entries()]).toEqual([...read.entries()]);
  expect([...open.values()]).toEqual([...read.values()]);
  expect([...open.keys()].map((path) => open.get(path))).toEqual(['a\n', 'b\n']);
  const visited: string[] = [];
  open.forEach((text, path) => visited.push(path, text));
  expect(visited).toEqual([...read].flat());
  expect(open.get('nodes/node-2/node.yaml')).toBeUndefined();
  expect(open.size).toBe(2);
});

test('throws for a file that was deleted after a tree was opened', () => {
  const open = openTree(dir) as Map<string, string>;
  rmSync(join(dir, 'nodes/node-1/node.yaml'));
  expect(() => open.get('nodes/node-1/node.yaml')).toThrow('ENOENT');
  expect(() => [...open]).toThrow('ENOENT');
});

test.each([openTree, readTree])('refuses a directory with a foreign file: %o', (reader) => {
  writeFileSync(join(dir, 'stray.txt'), '');
  expect(reader(dir)).toMatchObject({ code: 'BUNDLE_INVALID', at: { file: join(dir, 'stray.txt') } });
});

describe.each<[what: string, make: (path: string) => void]>([
  ['a link', (path) => symlinkSync('../../cluster.yaml', path)],
  ['a link to a device', (path) => symlinkSync('/dev/zero', path)],
  ['a pipe', (path) => void execFileSync('mkfifo', [path])],
])('%s in place of a file', (_what, make) => {
  beforeEach(() => {
    rmSync(join(dir, 'nodes/node-1/node.yaml'));
    make(join(dir, 'nodes/node-1/node.yaml'));
  });

  test.each([openTree, readTree])('is refused: %o', (reader) => {
    const at = { file: join(dir, 'nodes/node-1/node.yaml') };
    expect(reader(dir)).toMatchObject({ code: 'BUNDLE_INVALID', at, message: expect.stringContaining('regular') });
  });

  test('has no text', () => {
    expect(readText(dir, 'nodes/node-1/node.yaml')).toBeUndefined();
  });
});
