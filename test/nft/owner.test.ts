// @module-tag test
import { readdirSync } from 'node:fs';
import { atTier, reaches } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { addPods, Clients } from '../netns/clients.ts';
import { needKernel } from '../netns/privileges.ts';
import { until } from '../netns/sluiced-node.ts';
import { firewalldRoot, reloadFirewalld } from './firewalld.ts';
import { newerNft } from './newer.ts';
import { OwnedNode, ownersOf } from './owned-node.ts';

/** The real daemon with an nft and a kernel that know `flags owner,persist`: no other program can change the table. */

const newer = newerNft();
const flushes = atTier({ quick: 50, all: 1_000 });

let node: OwnedNode;
beforeEach(needKernel);
beforeEach(async (context) => {
  if ('lack' in newer) return context.skip(newer.lack);
  node = await OwnedNode.make(newer.path);
});
afterEach(() => node?.remove());

test('no other program flushes, changes or removes the table, and no connection is lost', {
  timeout: 600_000,
}, async () => {
  await addPods(node.real);
  await node.start(1, 2);
  const clients = await Clients.start(node.real);
  const before = await node.real.frontends();
  expect(before).toContain('10.244.0.2 . 8080, 10.244.0.3 . 8080');
  const script = `set -e; for i in $(seq ${flushes}); do nft flush ruleset; ! nft delete table inet sluice 2>/dev/null; ! nft flush chain inet sluice services4 2>/dev/null; done`;
  await node.real.tool(['sh', '-c', script]);
  expect(await node.foreign('add', 'element', 'inet', 'sluice', 'cluster4', '{ 192.0.2.1 }')).toContain(
    'not permitted',
  );
  expect(await node.real.frontends()).toBe(before);
  expect(JSON.parse((await node.real.get()) ?? '')).toMatchObject({ lastRepair: null, protection: { kind: 'owned' } });
  expect(clients.lost()).toEqual([]);
  console.log(`${clients.served()} connections while the rules were flushed ${flushes} times`);
});

test.runIf(reaches('all'))('a reload of firewalld loses no connection', { timeout: 600_000 }, async (context) => {
  const firewalld = firewalldRoot();
  if ('lack' in firewalld) return context.skip(firewalld.lack);
  await addPods(node.real);
  await node.start(1, 2);
  const before = await node.real.frontends();
  const clients = await Clients.start(node.real);
  expect(await node.real.tool(['sh', '-ec', reloadFirewalld(firewalld.root)])).toContain(
    'success\nsuccess\ntable inet firewalld',
  );
  expect(await node.real.frontends()).toBe(before);
  expect(JSON.parse((await node.real.get()) ?? '')).toMatchObject({ lastRepair: null });
  expect(clients.lost()).toEqual([]);
});

test('changes endpoints, and puts a release on probation, while it owns the table', async () => {
  const daemon = await node.start(1, 2);
  const owners = ownersOf(daemon.pid);
  node.put(1, 2, 3);
  await until('the endpoint serves', async () => (await node.real.frontends()).includes('10.244.0.4 . 8080'));
  node.put(11, 12);
  await until('the release serves', async () =>
    (await node.real.frontends()).includes('10.244.0.12 . 8080, 10.244.0.13 . 8080'),
  );
  expect(ownersOf(daemon.pid)).toEqual(owners);
  expect(await node.protection()).toBe('owned');
});

test('a killed owner leaves the table, and another one owns it', async () => {
  await addPods(node.real);
  const daemon = await node.start(1, 2);
  const clients = await Clients.start(node.real);
  const before = await node.real.frontends();
  const [owner = 0, ...more] = ownersOf(daemon.pid);
  expect(more).toEqual([]);
  process.kill(owner, 'SIGKILL');
  await until('another process owns it', async () => ownersOf(daemon.pid).some((pid) => pid !== owner));
  await node.owned();
  expect(await node.foreign('flush', 'ruleset')).toBe('');
  expect(await node.real.frontends()).toBe(before);
  expect(clients.lost()).toEqual([]);
});

test('a killed daemon leaves the table, and the next one owns it', async () => {
  const daemon = await node.start(1, 2);
  const before = await node.real.frontends();
  const [owner = 0] = ownersOf(daemon.pid);
  await node.real.kill(daemon);
  await until('the owner ends', async () => !readdirSync('/proc').includes(String(owner)));
  expect(await node.real.frontends()).toBe(before);
  node.real.start();
  await node.owned();
  expect(await node.foreign('flush', 'ruleset')).toBe('');
  expect(await node.real.frontends()).toBe(before);
});

test('commands change the table of a node without a daemon', async () => {
  node.put(1, 2);
  expect(await node.real.apply()).toMatchObject({ exitCode: 0 });
  node.put(11, 12);
  expect(await node.real.apply()).toMatchObject({ exitCode: 0 });
  expect(await node.real.frontends()).toContain('10.244.0.12 . 8080');
  expect(await node.real.tool(['nft', '-t', 'list', 'table', 'inet', 'sluice'])).toMatch(/flags (?:owner,)?persist/);
  expect(await node.real.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
  expect(await node.real.tool(['nft', 'list', 'tables'])).toBe('');
});
