// @module-tag test
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { AdoptNode, type ProxyMode } from './adopt-node.ts';
import { addPods, Clients } from './clients.ts';
import { needBackend, needKernel } from './privileges.ts';
import { until } from './until.ts';

type Answers = Readonly<Record<string, Readonly<Record<string, number>>>>;
const all = (answers: Answers): readonly (readonly [string, number])[] =>
  Object.values(answers).flatMap(Object.entries);
const sum = (answers: Answers): number =>
  all(answers).reduce((total, [what, n]) => total + (what === 'served' ? n : 0), 0);
const misled = (answers: Answers): number =>
  all(answers).reduce((total, [what, n]) => total + (what === 'served' ? 0 : n), 0);

let node: AdoptNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await AdoptNode.start();
  await addPods(node);
});
afterEach(() => node.close());

function put(mode: 'iptables' | 'nftables'): void {
  const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
}

/** What receipts say of who serves, in their order. */
function serving(): readonly unknown[] {
  const folder = `${node.directory}/receipts`;
  const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
  return names.toSorted().map((name) => JSON.parse(readFileSync(`${folder}/${name}`, 'utf8')).serving as unknown);
}

const adopt = (...more: readonly string[]) =>
  node.sluiced('adopt', '--manifest', node.manifest, '--without-parity', ...more);

/** From kube-proxy's mode and store to Sluice's mode in that store. */
type Move = readonly [ProxyMode, 'nft' | 'legacy', 'iptables' | 'nftables'];
const allMoves: readonly Move[] = [
  ['nft', 'nft', 'iptables'],
  ['legacy', 'legacy', 'iptables'],
  ['nft', 'nft', 'nftables'],
  ['legacy', 'legacy', 'nftables'],
  ['nftables', 'nft', 'nftables'],
];
const moves = atTier({ quick: allMoves.slice(2, 3), all: allMoves });

test('an operator decides about the release of a move', { timeout: 120_000 }, async () => {
  await node.startKubeProxy('nft');
  node.writeConfig('nft', 'probation: {seconds: 0, confirm: manual}\n');
  put('nftables');
  const decide = (decision: 'confirm' | 'cancel') =>
    until(`\`sluiced ${decision}\` is taken`, async () => (await node.sluiced(decision)).exitCode === 0);
  const cancelled = adopt();
  await decide('cancel');
  expect(await cancelled).toMatchObject({ stdout: expect.stringContaining('kube-proxy runs as before') });
  expect(await node.proxies()).not.toBe(0);
  expect(await node.tables()).toEqual([]);
  const confirmed = adopt();
  await decide('confirm');
  expect(await confirmed).toMatchObject({ exitCode: 0 });
  expect(await node.proxies()).toBe(0);
});

test.each([
  ['runs', true],
  ['has stopped', false],
] as const)(
  'beside the table of a kube-proxy in mode nftables that %s, takeOver is refused, and the command of the hint serves',
  { timeout: 120_000 },
  async (_title, runs) => {
    await node.startKubeProxy('nftables');
    if (!runs) {
      rmSync(node.manifest);
      await until('kube-proxy has stopped', async () => (await node.proxies()) === 0);
    }
    const clients = await Clients.start(node);
    node.writeConfig('nft', 'takeOver: kube-proxy\n');
    put('nftables');
    const refused = await node.sluiced('apply', `${node.directory}/rendered`);
    expect(refused).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('run `sluiced adopt`') });
    const checked = await node.sluiced('preflight', `${node.directory}/rendered`);
    expect(checked).toMatchObject({ exitCode: 3, stdout: expect.stringContaining('run `sluiced adopt`') });
    expect(`${refused.stderr}${checked.stdout}`).not.toMatch(/delete|cleanup/);
    const moved = runs ? await adopt() : await node.sluiced('adopt', '--daemonset', '--without-parity');
    expect(moved).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('adopted: Sluice serves alone') });
    expect(await node.tables()).toEqual(['table inet sluice']);
    // The setting that it was refused with may stay.
    expect(await node.sluiced('apply', `${node.directory}/rendered`)).toMatchObject({ exitCode: 0 });
    const before = clients.served();
    await until('more clients are answered', async () => clients.served() > 100 + before);
    expect(clients.lost()).toEqual([]);
  },
);

const stores = atTier<readonly ('nft' | 'legacy')[]>({ quick: [], all: ['nft', 'legacy'] });
test.each(stores)(
  'killed on probation in mode iptables (store %s), packets meet the rules of kube-proxy again, and none is lost',
  { timeout: 120_000 },
  async (backend) => {
    // kube-proxy knows another endpoint of shop/web: the answer shows whose rules a packet has met.
    await node.startKubeProxy(backend, [3]);
    node.writeConfig(backend, 'probation: {seconds: 0, confirm: manual, deadmanSeconds: 8}\n');
    put('iptables');
    const clients = await Clients.start(node);
    const count = (what: string): number => clients.answers()['10.96.0.11']?.[what] ?? 0;
    const goesOn = async (what: string): Promise<void> => {
      const before = count(what);
      await until(`shop/web is ${what}`, async () => count(what) > 20 + before);
    };
    const byProxy = 'misled to 10.244.0.4';
    await goesOn(byProxy);
    const moving = node.host.start(node.command('adopt', '--manifest', node.manifest, '--without-parity'));
    await goesOn('served');
    await moving.signal('KILL');
    await moving.ended;
    await goesOn(byProxy);
    expect(node.journal()?.open?.phase).toBe('open');
    expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0 });
    expect(node.journal()).toMatchObject({ open: null, current: { number: 0 } });
    await goesOn(byProxy);
    expect(clients.lost().filter((line) => !line.includes('misled to'))).toEqual([]);
  },
);

describe.each(moves)("from kube-proxy's rules in %s (store %s) to mode %s", (proxy, backend, mode) => {
  beforeEach((context) => needBackend(context, backend));

  test.each(['kube-proxy', 'Sluice'])(
    'Sluice serves while kube-proxy runs beneath it, where %s was loaded first',
    { timeout: 60_000 },
    async (first) => {
      node.writeConfig(backend);
      put(mode);
      // kube-proxy knows another endpoint of shop/web, so that an answer shows whose rules a packet has met.
      const startProxy = () => node.startKubeProxy(proxy, [3]);
      const apply = async () => void (await node.tool(node.command('apply', `${node.directory}/rendered`)));
      for (const start of first === 'Sluice' ? [apply, startProxy] : [startProxy]) await start();
      const answered = await Clients.start(node);
      const moved = await node.sluiced('adopt', '--daemonset', '--without-parity', '--wait', '0');
      expect(moved).toMatchObject({
        exitCode: 1,
        stdout: expect.stringContaining('in front of kube-proxy, which still'),
      });
      // What was on its way, and what the clients have not written down yet.
      await sleep(500);
      const before = answered.answers();
      await until('more clients are answered', async () => answered.served() > 200 + sum(before));
      expect(misled(answered.answers())).toBe(misled(before));
      expect(await node.proxies()).toBe(1);
    },
  );

  test('there and back loses no new connection, and receipts say who serves', { timeout: 120_000 }, async () => {
    await node.startKubeProxy(proxy);
    const before = await node.rules(backend);
    const clients = await Clients.start(node);
    node.writeConfig(backend, `receipts: {directory: ${node.directory}/receipts}\n`);
    await node.sluiced('keygen');
    put(mode);
    const there = await adopt();
    expect(there).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('adopted: Sluice serves alone') });
    expect(await node.rules(backend)).not.toContain('KUBE-SVC-');
    expect(await node.tables()).not.toContain('table ip kube-proxy');
    expect(await node.proxies()).toBe(0);
    expect(serving()).toEqual([
      { mode, kubeProxy: 'runs' },
      { mode, kubeProxy: 'kept-away' },
    ]);
    const back = await node.sluiced('adopt', '--undo', '--wait', '20');
    expect(back).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('undone: kube-proxy serves') });
    expect((await node.rules(backend)).split('\n').toSorted()).toEqual(before.split('\n').toSorted());
    expect(await node.tables()).toEqual(proxy === 'nftables' ? ['table ip kube-proxy', 'table ip6 kube-proxy'] : []);
    expect(serving().at(-1)).toEqual({ mode: null, kubeProxy: 'runs' });
    expect(clients.lost()).toEqual([]);
    expect(clients.served()).toBeGreaterThan(100);
  });
});
