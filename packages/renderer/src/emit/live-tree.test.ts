import { lstatSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { changesBetween, changesFile, completeFile, serviceFile } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import { listTree } from '../load/tree.ts';
import { LiveTree } from './live-tree.ts';
import { planTree } from './tree.ts';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-live-'));
});
afterEach(() => rmSync(dir, { recursive: true }));

const path = (name: string): string => serviceFile('default', 'shop', name, 'iptables');

test('leaves the same directory as a single render, for any sequence of publications', () => {
  const files = fc.dictionary(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1\n', '2\n'));
  fc.assert(
    fc.property(fc.array(files, { minLength: 1, maxLength: 6 }), (publications) => {
      const tree = new LiveTree(dir);
      for (const publication of publications) {
        const wanted = new Map(Object.entries(publication).map(([name, text]) => [path(name), text]));
        tree.publish(wanted);
        expect(planTree(dir, wanted)).toMatchObject({ write: [], remove: [], complete: { isThere: true } });
        expect(listTree(dir)).toHaveLength(wanted.size);
      }
    }),
    runs(50),
  );
});

test('writes only changed files, and none without a change', () => {
  const tree = new LiveTree(dir);
  tree.publish(
    new Map([
      [path('a'), '1\n'],
      [path('b'), '1\n'],
    ]),
  );
  const before = statSync(join(dir, path('a'))).mtimeMs;
  expect(
    tree.publish(
      new Map([
        [path('a'), '1\n'],
        [path('b'), '2\n'],
      ]),
    ),
  ).toEqual({ written: [path('b')], removed: [] });
  expect(statSync(join(dir, path('a'))).mtimeMs).toBe(before);
  const seal = statSync(join(dir, completeFile)).ino;
  expect(
    tree.publish(
      new Map([
        [path('a'), '1\n'],
        [path('b'), '2\n'],
      ]),
    ),
  ).toEqual({ written: [], removed: [] });
  expect(statSync(join(dir, completeFile)).ino).toBe(seal);
});

test('tells which files changed since each of the last publications', () => {
  const tree = new LiveTree(dir);
  const read = (name: string): string => readFileSync(join(dir, name), 'utf8');
  const publish = (names: readonly string[]): string => {
    tree.publish(new Map(names.map((name) => [path(name), `${names.length}\n`])));
    return read(completeFile);
  };
  const seals = [publish(['a', 'b', 'c']), publish(['a', 'b', 'd']), publish(['a', 'b'])];
  const changes = seals.map((seal) => [...(changesBetween(read(changesFile), seal, seals[2] ?? '') ?? ['nothing'])]);
  expect(changes.map((paths) => paths.toSorted())).toEqual([
    [path('a'), path('b'), path('c'), path('d')],
    [path('a'), path('b'), path('d')],
    [],
  ]);
  tree.forget();
  publish(['a']);
  expect(changesBetween(read(changesFile), seals[2] ?? '', read(completeFile))).toBeUndefined();
  expect(publish(['a', 'b'])).toBe(seals[2]);
  expect(read(changesFile).endsWith(seals[2] ?? '-')).toBe(true);
});

test('publishes where the file of changes is a link, or of another user: it is made again', () => {
  const tree = new LiveTree(dir);
  tree.publish(new Map([[path('a'), '1\n']]));
  const other = join(dir, '.sluice-other');
  writeFileSync(other, 'mine', { mode: 0o444 });
  symlinkSync(other, join(dir, changesFile));
  expect(tree.publish(new Map([[path('a'), '2\n']]))).toEqual({ written: [path('a')], removed: [] });
  expect(lstatSync(join(dir, changesFile)).isFile()).toBe(true);
  expect(readFileSync(other, 'utf8')).toBe('mine');
});

test('refuses a directory with a foreign file, and repairs foreign changes after forget', () => {
  writeFileSync(join(dir, 'notes.txt'), 'mine');
  const tree = new LiveTree(dir);
  const files = new Map([[path('a'), '1\n']]);
  expect(tree.publish(files)).toMatchObject({ code: 'OUTPUT_NOT_A_BUNDLE' });
  rmSync(join(dir, 'notes.txt'));
  tree.publish(files);
  writeFileSync(join(dir, path('a')), 'other\n');
  expect(tree.publish(files)).toEqual({ written: [], removed: [] });
  tree.forget();
  expect(tree.publish(files)).toEqual({ written: [path('a')], removed: [] });
  expect(readFileSync(join(dir, path('a')), 'utf8')).toBe('1\n');
});
