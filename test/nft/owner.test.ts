// @module-tag test
import { readdirSync, readFileSync } from 'node:fs';
import { atTier, reaches } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { addPods, Clients } from '../netns/clients.ts';
import { needKernel } from '../netns/privileges.ts';
import { SluicedNode, until } from '../netns/sluiced-node.ts';
import { firewalldRoot, reloadFirewalld } from './firewalld.ts';
import { newerNft } from './newer.ts';

/** The real daemon with an nft and a kernel that know `flags owner,persist`: no other program can change the table. */

const newer = newerNft();
const flushes = atTier({ quick: 50, all: 1_000 });

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async (context) => {
  if ('lack' in newer) return context.skip(newer.lack);
  node = await SluicedNode.make(`mount --bind ${newer.path} /usr/sbin/nft &&`);
  node.writeConfig('nft');
});
afterEach(() => node?.remove());

function put(...web: readonly number[]): void {
  const services = { 'shop/web': web, 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode: 'nftables' }));
}

/** Starts the daemon, and waits until it owns the table with these endpoints of shop/web. */
async function start(...web: readonly number[]): Promise<ReturnType<SluicedNode['start']>> {
  put(...web);
  const daemon = node.start();
  await owned();
  return daemon;
}

async function owned(): Promise<void> {
  await until('the table is owned', async () => (await protection()) === 'owned');
}

async function protection(): Promise<string | undefined> {
  const status = await node.get();
  return status === undefined ? undefined : (JSON.parse(status) as { protection?: { kind: string } }).protection?.kind;
}

/** The children of a process, by their command lines. */
function childrenOf(pid: number | undefined, line: RegExp): readonly number[] {
  return readdirSync('/proc').flatMap((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      const isChild = Number(/\) \S (\d+)/.exec(stat)?.[1]) === pid;
      return isChild && line.test(readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' '))
        ? [Number(name)]
        : [];
    } catch {
      return [];
    }
  });
}

const helpersOf = (pid: number | undefined): readonly number[] => childrenOf(pid, / -i $/);

/** A foreign process; the error that it got. */
async function foreign(...args: readonly string[]): Promise<string> {
  return node.tool(['nft', ...args]).then(
    () => '',
    (error: { stderr?: string }) => error.stderr ?? 'failed',
  );
}

test('no other program flushes, changes or removes the table, and no connection is lost', {
  timeout: 600_000,
}, async () => {
  await addPods(node);
  await start(1, 2);
  const clients = await Clients.start(node);
  const before = await node.frontends();
  expect(before).toContain('10.244.0.2 . 8080, 10.244.0.3 . 8080');
  const script = `set -e; for i in $(seq ${flushes}); do nft flush ruleset; ! nft delete table inet sluice 2>/dev/null; ! nft flush chain inet sluice services4 2>/dev/null; done`;
  await node.tool(['sh', '-c', script]);
  expect(await foreign('add', 'element', 'inet', 'sluice', 'cluster4', '{ 192.0.2.1 }')).toContain('not permitted');
  expect(await node.frontends()).toBe(before);
  expect(JSON.parse((await node.get()) ?? '')).toMatchObject({ lastRepair: null, protection: { kind: 'owned' } });
  expect(clients.lost()).toEqual([]);
  console.log(`${clients.served()} connections while the rules were flushed ${flushes} times`);
});

test.runIf(reaches('all'))('a reload of firewalld loses no connection', { timeout: 600_000 }, async (context) => {
  const firewalld = firewalldRoot();
  if ('lack' in firewalld) return context.skip(firewalld.lack);
  await addPods(node);
  await start(1, 2);
  const before = await node.frontends();
  const clients = await Clients.start(node);
  expect(await node.tool(['sh', '-ec', reloadFirewalld(firewalld.root)])).toContain(
    'success\nsuccess\ntable inet firewalld',
  );
  expect(await node.frontends()).toBe(before);
  expect(JSON.parse((await node.get()) ?? '')).toMatchObject({ lastRepair: null });
  expect(clients.lost()).toEqual([]);
});

test('changes endpoints, and puts a release on probation, while it owns the table', async () => {
  const daemon = await start(1, 2);
  const helpers = helpersOf(daemon.pid);
  put(1, 2, 3);
  await until('the endpoint serves', async () => (await node.frontends()).includes('10.244.0.4 . 8080'));
  put(11, 12);
  await until('the release serves', async () =>
    (await node.frontends()).includes('10.244.0.12 . 8080, 10.244.0.13 . 8080'),
  );
  expect(helpersOf(daemon.pid)).toEqual(helpers);
  expect(await protection()).toBe('owned');
});

test('a killed owner leaves the table, and another one owns it', async () => {
  await addPods(node);
  const daemon = await start(1, 2);
  const clients = await Clients.start(node);
  const before = await node.frontends();
  const [helper = 0, ...more] = helpersOf(daemon.pid);
  expect(more).toEqual([]);
  process.kill(helper, 'SIGKILL');
  await until('another process owns it', async () => helpersOf(daemon.pid).some((pid) => pid !== helper));
  await owned();
  expect(await foreign('flush', 'ruleset')).toBe('');
  expect(await node.frontends()).toBe(before);
  expect(clients.lost()).toEqual([]);
});

test('a killed daemon leaves the table, and the next one owns it', async () => {
  const daemon = await start(1, 2);
  const before = await node.frontends();
  const [helper = 0] = helpersOf(daemon.pid);
  await node.kill(daemon);
  await until('the owner ends', async () => !readdirSync('/proc').includes(String(helper)));
  expect(await node.frontends()).toBe(before);
  node.start();
  await owned();
  expect(await foreign('flush', 'ruleset')).toBe('');
  expect(await node.frontends()).toBe(before);
});

test('commands change the table of a node without a daemon', async () => {
  put(1, 2);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  put(11, 12);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  expect(await node.frontends()).toContain('10.244.0.12 . 8080');
  expect(await node.tool(['nft', '-t', 'list', 'table', 'inet', 'sluice'])).toMatch(/flags (?:owner,)?persist/);
  expect(await node.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
  expect(await node.tool(['nft', 'list', 'tables'])).toBe('');
});
