import {
  chmodSync,
  chownSync,
  linkSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../testing/bundle.fixture.ts';
import { descend } from './descend.ts';
import { Inbox } from './inbox.ts';
import { walk } from './walk.ts';
import { trustOf } from './trust.ts';

let base: string;
let bundle: string;
beforeEach(() => {
  base = mkdtempSync(`${tmpdir()}/sluiced-trust-`);
  bundle = `${base}/srv/rendered`;
  mkdirSync(bundle, { recursive: true });
  writeBundle(bundle, sampleBundle());
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const stranger = 4711;
const shop = 'profiles/default/services/shop';

/** What a look says: `bundle`, or the message of the refusal. */
async function lookAt(path = bundle, owner?: number): Promise<string> {
  const arrival = await new Inbox(path, Date.now, trustOf(owner)).look();
  return arrival.kind === 'refused' ? `${arrival.problems[0]?.code}: ${arrival.problems[0]?.message}` : arrival.kind;
}

test('a directory that only its owner can write is read, also below a folder with the sticky bit', async () => {
  expect(await lookAt()).toBe('bundle');
});

test.each([
  ['a file that the group can write', () => chmodSync(`${bundle}/cluster.yaml`, 0o664), 'cluster.yaml is writable'],
  ['a world-writable folder', () => chmodSync(`${bundle}/${shop}`, 0o777), 'shop is writable'],
  ['a sticky folder inside', () => chmodSync(`${bundle}/${shop}`, 0o1777), 'shop is writable'],
  ['the top, sticky and world-writable', () => chmodSync(bundle, 0o1777), 'rendered is writable'],
  ['a world-writable parent folder', () => chmodSync(`${base}/srv`, 0o777), 'srv is writable'],
  ['a file with two names', () => linkSync(`${bundle}/cluster.yaml`, `${base}/kept`), 'cluster.yaml has 2 names'],
])('%s is refused', async (_title, spoil, says) => {
  spoil();
  const said = await lookAt();
  expect(said).toContain('BUNDLE_UNTRUSTED: ');
  expect(said).toContain(says);
});

describe.skipIf(process.getuid?.() !== 0)('owners, which only root can change', () => {
  test.each([
    [
      'a file of another user',
      () => chownSync(`${bundle}/cluster.yaml`, stranger, 0),
      'cluster.yaml belongs to user 4711',
    ],
    ['a folder of another user', () => chownSync(`${bundle}/nodes`, stranger, 0), 'nodes belongs to user 4711'],
    ['a folder above of another user', () => chownSync(`${base}/srv`, stranger, 0), 'srv belongs to user 4711'],
  ])('%s is refused, and read once the config names that user', async (_title, spoil, says) => {
    spoil();
    expect(await lookAt()).toContain(says);
    expect(await lookAt(bundle, stranger)).toBe('bundle');
  });

  test('a link of another user on the way is not followed', async () => {
    symlinkSync(bundle, `${base}/current`);
    expect(await lookAt(`${base}/current`)).toBe('bundle');
    lchownSync(`${base}/current`, stranger, 0);
    expect(await lookAt(`${base}/current`)).toContain('current belongs to user 4711');
  });

  test('a folder behind a link must be trusted all the way', async () => {
    mkdirSync(`${base}/open/inner`, { recursive: true });
    renameSync(bundle, `${base}/open/inner/rendered`);
    chmodSync(`${base}/open`, 0o777);
    symlinkSync('../open/inner', `${base}/srv/link`);
    expect(await lookAt(`${base}/srv/link/rendered`)).toContain('open is writable');
  });
});

test('reports a loop of links', async () => {
  symlinkSync('b', `${base}/a`);
  symlinkSync('a', `${base}/b`);
  expect(await lookAt(`${base}/a/rendered`)).toContain('more than 40 symbolic links');
});

test('copies from the opened folder when it is swapped for a link meanwhile', () => {
  const evil = `${base}/evil`;
  writeBundle(
    evil,
    new Map([...sampleBundle({ services: { 'shop/a': [1], 'shop/b': [2] } })].map(([path]) => [path, 'EVIL'])),
  );
  writeBundle(bundle, sampleBundle({ services: { 'shop/a': [1], 'shop/b': [2] } }));
  const top = descend(bundle, undefined);
  const copied: string[] = [];
  walk(top, undefined, (file) => {
    copied.push(file.read().bytes.toString('utf8'));
    if (!file.path.startsWith(shop) || copied.includes('swapped')) return;
    copied.push('swapped');
    renameSync(`${bundle}/profiles`, `${base}/gone`);
    symlinkSync(`${evil}/profiles`, `${bundle}/profiles`);
  });
  top[Symbol.dispose]();
  expect(copied).toContain('swapped');
  expect(copied.filter((text) => text.includes('KUBE-SERVICES -m comment'))).toHaveLength(3);
  expect(copied).not.toContain('EVIL');
});

test('no descriptor stays open, whether a look succeeds or not', async () => {
  const open = (): number => readdirSync('/proc/self/fd').length;
  await lookAt();
  const before = open();
  for (let round = 0; round < 20; round++) await lookAt();
  chmodSync(`${bundle}/${shop}`, 0o777);
  for (let round = 0; round < 20; round++) await lookAt();
  for (let round = 0; round < 20; round++) await lookAt(`${base}/nothing/here`);
  expect(open()).toBe(before);
});
