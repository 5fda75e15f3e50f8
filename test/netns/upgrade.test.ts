// @module-tag test
import { appendFileSync, cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier, programPath, reaches } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { RecordedAnswers, ClientQuestion } from '../upgrade/client.ts';
import {
  openUpgradeCluster,
  type SavedRules,
  rulesIn,
  type Setup,
  setups,
  upgradeFolder,
  UpgradeNode,
  versions,
} from '../upgrade/node.ts';
import { makeKey, Releases } from '../upgrade/releases.ts';
import type { Cluster } from './cluster.ts';
import { needBackend, needKernel } from './privileges.ts';
import { until } from './until.ts';

/**
 * A node as an earlier version left it, taken over by this one under traffic: `test/upgrade` has the state directory and the rules in the
 * kernel that the earlier version wrote.
 */

const web = ['a', 'b', 'c'];
/** This connection times out: each attempt takes seconds. */
const dropped = 'outside of the source ranges';
/** The connections of each client, and the answers that each may get. */
const asked: Readonly<
  Record<'outside' | 'client' | 'node-1', readonly (ClientQuestion & { readonly may: readonly string[] })[]>
> = {
  outside: [
    { name: 'load balancer, IPv4', by: 'tcp', to: '203.0.113.20', port: 80, from: '198.51.100.7', may: web },
    { name: 'load balancer, IPv6', by: 'tcp', to: '2001:db8:100::20', port: 80, may: web },
    {
      name: dropped,
      by: 'tcp',
      to: '203.0.113.20',
      port: 80,
      from: '203.0.113.200',
      may: ['no answer'],
    },
    { name: 'node port, IPv4', by: 'tcp', to: '192.0.2.11', port: 30_050, from: '198.51.100.7', may: web },
    { name: 'node port, IPv6', by: 'tcp', to: '2001:db8:2::11', port: 30_050, may: web },
    { name: 'node port, policy Local', by: 'tcp', to: '192.0.2.11', port: 30_060, from: '198.51.100.7', may: ['b'] },
    { name: 'load balancer, policy Local', by: 'tcp', to: '203.0.113.21', port: 80, from: '198.51.100.7', may: ['b'] },
  ],
  client: [
    { name: 'ClusterIP, IPv4', by: 'tcp', to: '10.96.0.50', port: 80, may: web },
    { name: 'ClusterIP, IPv6', by: 'tcp', to: 'fd00:10:96::50', port: 80, may: web },
    { name: 'policy Local, from inside', by: 'tcp', to: '10.96.0.60', port: 80, may: ['b', 'c'] },
    { name: 'affinity', by: 'tcp', to: '10.96.0.70', port: 80, may: ['a', 'b'] },
    { name: 'UDP', by: 'udp', to: 'fd00:10:96::53', port: 53, may: ['a'] },
    { name: 'without endpoints', by: 'tcp', to: '10.96.0.80', port: 80, may: ['ECONNREFUSED'] },
    { name: 'one connection', by: 'stay', to: '10.96.0.50', port: 80, may: web },
  ],
  'node-1': [{ name: 'ClusterIP from the node', by: 'tcp', to: '10.96.0.50', port: 80, may: web }],
};
/** The setups of this run. */
const tried: readonly Setup[] = atTier({ quick: setups.filter(({ backend }) => backend === 'nft'), all: setups });
/** Connections that must stay on one endpoint, any of them. */
const allFaithful = ['affinity', 'one connection'];
const places = Object.keys(asked) as (keyof typeof asked)[];

let directory: string;
beforeEach(needKernel);
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'slt-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const program = (name: string): readonly string[] => [process.execPath, join(upgradeFolder, `${name}.ts`)];
const met = (place: string): RecordedAnswers =>
  JSON.parse(readFileSync(join(directory, `met-${place}`), 'utf8')) as RecordedAnswers;
const count = (place: string, name: string, answer?: string): number =>
  Object.entries(met(place)[name] ?? {}).reduce(
    (sum, [what, times]) => sum + (answer === undefined || what === answer ? times : 0),
    0,
  );

/** Starts the servers and the clients. */
async function startTraffic(cluster: Cluster): Promise<void> {
  for (const address of ['203.0.113.20', '203.0.113.21', '2001:db8:100::20']) await cluster.enterAt(address, 'node-1');
  for (const pod of web) cluster.host(pod).start([...program('server'), pod]);
  await sleep(1_000);
  for (const place of places)
    cluster.host(place).start([...program('client'), join(directory, `met-${place}`), JSON.stringify(asked[place])]);
}

/** Waits until every connection was answered so often again. */
async function answeredAgain(times = 3): Promise<void> {
  const all = places.flatMap((place) => asked[place].map(({ name }) => ({ place, name })));
  const before = await until('the clients run', async () => {
    try {
      return all.map(({ place, name }) => count(place, name));
    } catch {
      return undefined;
    }
  });
  const isBehind = (index: number): boolean => {
    const { place, name } = all[index]!;
    return name !== dropped && count(place, name) < (before[index] ?? 0) + times;
  };
  await until('all are answered', async () => !all.some((_, index) => isBehind(index)), 20_000);
}

/** Answers that a connection must not get. */
const wrong = (faithful: readonly string[] = allFaithful): readonly string[] =>
  places.flatMap((place) =>
    asked[place].flatMap(({ name, may }) => {
      const answers = Object.keys(met(place)[name] ?? {});
      const others = answers.filter((answer) => !may.includes(answer));
      return [
        ...others.map(
          (answer) => `${place}, ${name}: ${answer} (${count(place, name, answer)} of ${count(place, name)})`,
        ),
        ...(faithful.includes(name) && answers.length > 1
          ? [`${place}, ${name}: moved between ${answers.join(' and ')}`]
          : []),
      ];
    }),
  );

/** node-1 as the earlier version left it. */
async function leftBehind(
  cluster: Cluster,
  version: string,
  setup: Setup,
): Promise<{ node: UpgradeNode; old: SavedRules }> {
  const [from, own] = [join(upgradeFolder, version), join(upgradeFolder, version, setup.name)];
  const node = new UpgradeNode(cluster.host('node-1'), programPath('sluiced'), setup);
  for (const name of ['sluiced.yaml', 'state', 'receipts']) await node.put(join(own, name), name);
  await node.put(join(from, 'release'), 'rendered');
  await node.put(join(from, 'allowed_signers'), 'allowed_signers');
  return { node, old: rulesIn(own) };
}

/** The manifests with a profile in mode nftables. @returns their folder */
function inModeNftables(manifests: string): string {
  const folder = join(directory, 'manifests');
  cpSync(manifests, folder, { recursive: true });
  const config = join(folder, 'sluice.yaml');
  const text = readFileSync(config, 'utf8').replace('  - name: default\n', '  - name: default\n    mode: nftables\n');
  writeFileSync(config, text);
  return folder;
}

/** The verdict of `sluice fleet` on the receipts on the node. */
async function fleetOf(node: UpgradeNode, release: string, allowed: string): Promise<string> {
  const receipts = join(directory, 'receipts');
  rmSync(receipts, { recursive: true, force: true });
  node.take('receipts', receipts);
  const args = ['fleet', receipts, '--allowed-receipts', allowed, '--release', release, '-o', 'json'];
  const result = await execa(programPath('sluice'), args, { reject: false });
  return (JSON.parse(result.stdout) as { nodes: { node: string; state: string }[] }).nodes
    .map(({ node: name, state }) => `${name} ${state}`)
    .join(', ');
}

describe.each(versions)('a node of version %s', (version) => {
  describe.each(tried)('in layout $layout under $backend', (setup) => {
    beforeEach((context) => needBackend(context, setup.backend));

    test('is taken over unchanged, applies endpoints and a release and rolls back; no connection is lost', {
      timeout: 120_000,
    }, async () => {
      await using cluster = await openUpgradeCluster();
      const { node, old } = await leftBehind(cluster, version, setup);
      const from = join(upgradeFolder, version);
      await node.restore(old, join(from, 'release'));
      expect(await node.rules(), 'the restored rules').toEqual(old);
      await startTraffic(cluster);
      await answeredAgain();

      // A new key: the test data do not include the old one.
      const allowed = join(directory, 'allowed_receipts');
      cpSync(join(from, setup.name, 'allowed_receipts'), allowed);
      appendFileSync(allowed, await node.keygen());
      const before = node.journal();
      let daemon = node.start();
      await until('the daemon is healthy', async () => (await node.status()).daemon?.healthy, 20_000);
      await answeredAgain();
      expect(await node.rules(), 'a start changes no rule').toEqual(old);
      expect(node.journal(), 'nor the journal').toEqual(before);
      expect(await node.status()).toMatchObject({
        generation: before?.current?.number,
        kernel: { holds: true },
        daemon: { healthy: true, lastRepair: null, alarms: {} },
      });
      expect(wrong()).toEqual([]);

      await node.put(join(from, 'update'), 'rendered');
      await until('pod c is met', async () => count('client', 'ClusterIP, IPv4', 'c') > 0, 20_000);
      await until('it is confirmed', async () => node.journal()?.current?.revision === 1);
      expect(node.journal()?.current?.number, 'as endpoints of the same release').toBe(before?.current?.number);

      const serial = (before?.current?.number ?? 0) + 1;
      const key = makeKey(directory, 'newer');
      const releases = new Releases(programPath('sluice'), join(from, 'manifests'), directory, key);
      appendFileSync(join(directory, 'allowed_signers'), node.read('allowed_signers') + releases.signer);
      await daemon.stop();
      await node.put(join(directory, 'allowed_signers'), 'allowed_signers');
      daemon = node.start();
      const release = releases.make(['services', 'endpoints-more'], serial);
      await node.put(release, 'rendered');
      await until('the release is confirmed', async () => node.confirmed(serial), 30_000);
      await answeredAgain();
      await until('its receipt is written', async () => node.hasReceipt(serial));
      await daemon.stop();
      expect(await fleetOf(node, release, allowed), 'receipts of both versions').toBe('node-2 silent, node-1 runs');
      expect(await node.sluiced('rollback', '--yes')).toMatchObject({ exitCode: 0 });
      await answeredAgain();
      expect(node.journal()).toMatchObject({ open: null, current: { number: before?.current?.number } });
      expect([wrong(), count('outside', dropped) > 0]).toEqual([[], true]);
    });

    const triesModes = setup.layout === 'tree' || reaches('all');
    test.runIf(triesModes)('goes to mode nftables and back; no connection is lost', { timeout: 120_000 }, async () => {
      await using cluster = await openUpgradeCluster();
      const { node, old } = await leftBehind(cluster, version, setup);
      const from = join(upgradeFolder, version);
      await node.restore(old, join(from, 'release'));
      const before = node.journal();
      const serial = (before?.current?.number ?? 0) + 1;
      await startTraffic(cluster);
      const releases = new Releases(
        programPath('sluice'),
        inModeNftables(join(from, 'manifests')),
        directory,
        makeKey(directory, 'newer'),
      );
      appendFileSync(join(directory, 'allowed_signers'), node.read('allowed_signers') + releases.signer);
      await node.put(join(directory, 'allowed_signers'), 'allowed_signers');
      const daemon = node.start();
      await until('the daemon is healthy', async () => (await node.status()).daemon?.healthy, 20_000);
      await answeredAgain();
      await node.put(releases.make(['services', 'added', 'endpoints-more'], serial), 'rendered');
      await until('the release is confirmed', async () => node.confirmed(serial), 30_000);
      await answeredAgain();
      expect((await node.rules())['iptables.save']).not.toMatch(/SLU-|KUBE-SVC/);
      expect(node.journal()?.schema, 'the earlier version refuses it').toBe(3);
      expect(await node.status()).toMatchObject({ kernel: { holds: true }, daemon: { healthy: true, alarms: {} } });
      expect(await node.sluiced('rollback', '--yes', '--endpoints', 'old')).toMatchObject({ exitCode: 0 });
      await answeredAgain();
      await daemon.stop();
      expect(await node.rules()).toEqual(old);
      // The modes remember clients of session affinity apart from each other.
      expect([wrong(['one connection']), count('outside', dropped) > 0]).toEqual([[], true]);
    });

    test('has its rules after a boot', async () => {
      await using cluster = await openUpgradeCluster();
      const { node, old } = await leftBehind(cluster, version, setup);
      expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0 });
      expect(await node.rules()).toEqual(old);
    });
  });
});
