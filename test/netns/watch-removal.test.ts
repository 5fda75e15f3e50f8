// @module-tag test
import { appendFileSync, writeFileSync } from 'node:fs';
import { atTier, programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { type ApiObject, token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { layoutPlanes, SluicedNode, until } from './sluiced-node.ts';

/** Removals all the way: an API server, `sluice watch`, and the kernel of a node with `sluiced run`. */

const count = 12;
/** Of each of the two holds. */
const holdSeconds = 6;

let node: SluicedNode;
let api: LiveCluster;
let watching: ReturnType<typeof watch> | undefined;
beforeEach(needKernel);
beforeEach(async () => {
  [node, api] = [await SluicedNode.make(), await LiveCluster.start()];
});
afterEach(async () => {
  watching?.kill('SIGTERM');
  await watching;
  watching = undefined;
  await api.server.close();
  await node.remove();
});

const numbers = Array.from({ length: count }, (_, n) => n + 1);
const endpointOf = (n: number): string => `10.244.1.${n}:8080`;
const serving = (...of: readonly number[]): readonly string[] => of.map(endpointOf).toSorted();

const serviceOf = (n: number): ApiObject => ({
  metadata: { name: `s${n}`, namespace: 'shop' },
  spec: { clusterIP: `10.96.0.${n}`, clusterIPs: [`10.96.0.${n}`], ports: [{ port: 80, protocol: 'TCP' }] },
});
const sliceOf = (n: number): ApiObject => ({
  metadata: { name: `s${n}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': `s${n}` } },
  addressType: 'IPv4',
  endpoints: [{ addresses: [`10.244.1.${n}`], conditions: { ready: true }, nodeName: 'node-a' }],
  ports: [{ name: '', port: 8080, protocol: 'TCP' }],
});

function fill(): void {
  for (const n of numbers) {
    api.put('services', serviceOf(n));
    api.put('endpointslices', sliceOf(n));
  }
}

function watch() {
  const kubeconfig = api.server.kubeconfig({ token });
  const config = `${node.directory}/sluice.yaml`;
  const args = ['watch', '-o', `${node.directory}/rendered`, '-c', config, '--kubeconfig', kubeconfig];
  const hold = ['--removal-hold', `${holdSeconds}s`];
  return execa(programPath('sluice'), [...args, ...hold], { reject: false, all: true });
}

const alarm = async (): Promise<string | undefined> =>
  (JSON.parse((await node.get()) ?? '{}') as { alarms?: Readonly<Record<string, string>> }).alarms?.['REMOVAL_HELD'];

/** Those of mode iptables on nf_tables and of mode nftables alone, unless there is time. */
const planes = atTier({
  quick: oneInTurn(
    layoutPlanes.filter(({ backend, layout }) => backend === 'nft' && layout === 'tree'),
    'watch removal',
  ),
  all: layoutPlanes,
});

describe.each(planes)('mode $mode, layout $layout, store $backend', { timeout: 150_000 }, (plane) => {
  beforeEach((context) => needBackend(context, plane.backend));

  test('a few Services go at once; all of them are held by both, one after the other, and are back at once', async () => {
    node.writeConfig(plane.backend, `layout: ${plane.layout}\n`);
    appendFileSync(`${node.directory}/sluiced.yaml`, `removals: { holdSeconds: ${holdSeconds} }\n`);
    const profile = `{name: default, mode: ${plane.mode}, families: [ipv4], clusterCIDR: 10.244.0.0/16, conntrack: {maxPerCore: 0}}`;
    writeFileSync(
      `${node.directory}/sluice.yaml`,
      `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nserviceCIDRs: [10.96.0.0/12]\nprofiles: [${profile}]\n`,
    );
    api.put('nodes', {
      metadata: { name: 'node-a', labels: {} },
      spec: { podCIDR: '10.244.1.0/24', podCIDRs: ['10.244.1.0/24'] },
      status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }], capacity: { cpu: '2' } },
    });
    fill();
    watching = watch();
    let log = '';
    watching.all.on('data', (chunk: Buffer) => (log += chunk));
    node.start();
    const serves = (what: string, of: readonly number[]): Promise<unknown> =>
      until(what, async () => (await node.endpoints(plane)).join() === serving(...of).join(), 60_000);
    await serves('all Services are served', numbers);

    for (const n of [1, 2, 3]) {
      api.remove('services', `s${n}`);
      api.remove('endpointslices', `s${n}-1`);
    }
    await serves('three are gone', numbers.slice(3));
    fill();
    await serves('they are back', numbers);

    log = '';
    const lostMs = performance.now();
    api.lose('services');
    api.lose('endpointslices');
    // Its health says so for the seconds of the hold alone, which a busy machine may sleep through: its log stays.
    await until('sluice watch holds them', async () => log.includes('REMOVAL_HELD'), 60_000);
    expect(await alarm()).toBeUndefined();
    expect(await node.endpoints(plane)).toEqual(serving(...numbers));
    await until('the node holds them', async () => (await alarm()) !== undefined, 60_000);
    expect(performance.now() - lostMs).toBeGreaterThan(holdSeconds * 1_000);
    expect(await node.endpoints(plane)).toEqual(serving(...numbers));
    await serves('all are gone', []);
    expect(performance.now() - lostMs).toBeGreaterThan(2 * holdSeconds * 1_000);
    await until('the alarm is over', async () => (await alarm()) === undefined);
    fill();
    await serves('all are back', numbers);
  });
});
