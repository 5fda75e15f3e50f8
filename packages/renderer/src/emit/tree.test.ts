import {
  closeSync,
  lstatSync,
  openSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listTree } from '../load/tree.ts';
import { planTree, type TreePlan, writeTree } from './tree.ts';

let dir: string;
beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'sluice-tree-'))));
afterEach(() => rmSync(dir, { recursive: true }));

const service = 'profiles/default/services/shop/web.iptables';
const files = new Map([
  ['cluster.yaml', 'kind: Cluster\n'],
  ['nodes/node-a/node.yaml', 'kind: Node\n'],
  [service, '*nat\nCOMMIT\n'],
]);

function plan(of: ReadonlyMap<string, string> = files): TreePlan {
  const planned = planTree(dir, of);
  if ('code' in planned) throw new Error(planned.message);
  return planned;
}

test('writes every file and then .sluice-complete to a new directory', () => {
  writeTree(dir, files, plan());
  expect(listTree(dir)).toEqual([...files.keys()].toSorted());
  expect(readFileSync(join(dir, '.sluice-complete'), 'utf8')).toMatch(/^sha256:[0-9a-f]{64}\n$/);
  expect(plan()).toMatchObject({ write: [], remove: [], complete: { isThere: true } });
});

test('does not touch an unchanged directory', () => {
  writeTree(dir, files, plan());
  const before = statSync(join(dir, '.sluice-complete'), { bigint: true });
  writeTree(dir, files, plan());
  const after = statSync(join(dir, '.sluice-complete'), { bigint: true });
  expect([after.ino, after.mtimeNs]).toEqual([before.ino, before.mtimeNs]);
});

test('writes only changed files, and removes deleted ones with their empty folders', () => {
  writeTree(dir, files, plan());
  const next = new Map(files).set('cluster.yaml', 'kind: Cluster\nname: shop\n');
  next.delete(service);
  const planned = plan(next);
  expect(planned).toMatchObject({ write: ['cluster.yaml'], remove: [service], complete: { isThere: false } });
  writeTree(dir, next, planned);
  expect(() => statSync(join(dir, 'profiles'))).toThrow(/ENOENT/);
});

test('replaces a changed file by a new one, so that its folder changes too', () => {
  writeTree(dir, files, plan());
  utimesSync(join(dir, 'profiles/default/services/shop'), 1, 1);
  const [opened, next] = [openSync(join(dir, service), 'r'), new Map(files).set(service, '*filter\nCOMMIT\n')];
  writeTree(dir, next, plan(next));
  expect(readFileSync(opened, 'utf8'), 'what a reader still holds').toBe(files.get(service));
  closeSync(opened);
  expect(statSync(join(dir, 'profiles/default/services/shop')).mtimeMs).toBeGreaterThan(1000);
});

test.each([
  ['a file is missing', () => rmSync(join(dir, 'cluster.yaml'))],
  ['a file is truncated', () => writeFileSync(join(dir, service), '*nat\n')],
  ['.sluice-complete is missing', () => rmSync(join(dir, '.sluice-complete'))],
  ['there is an unfinished file', () => writeFileSync(join(dir, service.replace('web', 'old')), '*nat')],
])('repairs an interrupted write: %s', (_title, interrupt) => {
  writeTree(dir, files, plan());
  interrupt();
  const planned = plan();
  expect(planned.write.length + planned.remove.length + Number(!planned.complete.isThere)).toBe(1);
  writeTree(dir, files, planned);
  expect(plan()).toMatchObject({ write: [], remove: [], complete: { isThere: true } });
});

test.each([
  'notes.txt',
  'profiles/default/services/shop/Web.iptables',
  'profiles/default/services/shop/deep/web.iptables',
])('refuses a directory with the foreign file %s', (path) => {
  mkdirSync(join(dir, path, '..'), { recursive: true });
  writeFileSync(join(dir, path), '');
  expect(planTree(dir, files)).toMatchObject({ code: 'OUTPUT_NOT_A_BUNDLE', at: { file: join(dir, path) } });
});

test('keeps .git and the files of a release', () => {
  mkdirSync(join(dir, '.git'));
  writeFileSync(join(dir, '.git/HEAD'), '');
  writeFileSync(join(dir, 'SHA256SUMS'), '');
  writeTree(dir, files, plan());
  expect(readFileSync(join(dir, '.git/HEAD'), 'utf8')).toBe('');
});

test('replaces a link by a file and leaves its target alone, also with the same content', () => {
  writeTree(dir, files, plan());
  const elsewhere = join(dir, '.git');
  for (const [path, text] of [...files, ['.sluice-complete', readFileSync(join(dir, '.sluice-complete'), 'utf8')]]) {
    writeFileSync(elsewhere, text as string);
    rmSync(join(dir, path as string));
    symlinkSync(elsewhere, join(dir, path as string));
    writeTree(dir, files, plan());
    expect(lstatSync(join(dir, path as string)).isFile()).toBe(true);
    expect(readFileSync(elsewhere, 'utf8')).toBe(text);
  }
});
