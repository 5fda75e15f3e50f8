// @module-tag test
import { rmSync, writeFileSync } from 'node:fs';
import { atTier, programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { type ApiObject, token } from '../cluster/apiserver.fixture.ts';
import { LiveCluster } from '../cluster/live.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { layoutPlanes, SluicedNode, until } from './sluiced-node.ts';

/** A node's own watch: an API server, `sluice watch --node`, and the kernel of that node with `sluiced run`. */

let node: SluicedNode;
let api: LiveCluster;
let watching: ReturnType<typeof watch> | undefined;
beforeEach(needKernel);
beforeEach(async () => {
  [node, api] = [await SluicedNode.make(), await LiveCluster.start()];
});
afterEach(async () => {
  await endWatch();
  await api.server.close();
  await node.remove();
});

async function endWatch(): Promise<void> {
  watching?.kill('SIGTERM');
  await watching;
  watching = undefined;
}

function watch() {
  const kubeconfig = api.server.kubeconfig({ token });
  const args = ['watch', '--node', 'node-a', '-o', `${node.directory}/rendered`, '--kubeconfig', kubeconfig];
  const config = ['-c', `${node.directory}/sluice.yaml`];
  return execa(programPath('sluice'), [...args, ...config], { reject: false, all: true });
}

function put(n: number, endpoint: number): void {
  const service: ApiObject = {
    metadata: { name: `s${n}`, namespace: 'shop' },
    spec: { clusterIP: `10.96.0.${n}`, clusterIPs: [`10.96.0.${n}`], ports: [{ port: 80, protocol: 'TCP' }] },
  };
  const slice: ApiObject = {
    metadata: { name: `s${n}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': `s${n}` } },
    addressType: 'IPv4',
    endpoints: [{ addresses: [`10.244.1.${endpoint}`], conditions: { ready: true }, nodeName: 'node-b' }],
    ports: [{ name: '', port: 8080, protocol: 'TCP' }],
  };
  api.put('services', service);
  api.put('endpointslices', slice);
}

/** Removes every rule, as a reboot does, and what the watch wrote below /run. */
async function reboot(backend: string): Promise<void> {
  rmSync(`${node.directory}/rendered`, { recursive: true });
  await node.tool(['sh', '-c', 'nft delete table inet sluice 2>/dev/null || true']);
  for (const table of ['nat', 'filter'])
    for (const what of ['-F', '-X']) await node.tool([`iptables-${backend}`, '-t', table, what]);
}

const planes = atTier({
  quick: oneInTurn(
    layoutPlanes.filter(({ backend, layout }) => backend === 'nft' && layout === 'tree'),
    'node watch',
  ),
  all: layoutPlanes,
});

describe.each(planes)('mode $mode, layout $layout, store $backend', { timeout: 150_000 }, (plane) => {
  beforeEach((context) => needBackend(context, plane.backend));

  test("a node's own watch brings Services and endpoints; without the API server the node keeps and boots its rules", async () => {
    node.writeConfig(plane.backend, `layout: ${plane.layout}\n`);
    const profile = `{name: default, mode: ${plane.mode}, families: [ipv4], clusterCIDR: 10.244.0.0/16, conntrack: {maxPerCore: 0}}`;
    writeFileSync(
      `${node.directory}/sluice.yaml`,
      `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nserviceCIDRs: [10.96.0.0/12]\nprofiles: [${profile}]\n`,
    );
    for (const [at, name] of ['node-a', 'node-b'].entries())
      api.put('nodes', {
        metadata: { name, labels: {} },
        spec: { podCIDR: `10.244.${at}.0/24`, podCIDRs: [`10.244.${at}.0/24`] },
        status: { addresses: [{ type: 'InternalIP', address: `192.0.2.${at + 11}` }], capacity: { cpu: '2' } },
      });
    put(1, 1);
    const serves = (what: string, ...of: readonly number[]): Promise<unknown> => {
      const served = of.map((n) => `10.244.1.${n}:8080`).toSorted();
      return until(what, async () => (await node.endpoints(plane)).join() === served.join(), 60_000);
    };
    watching = watch();
    const daemon = node.start();
    await serves('the first Service', 1);
    put(2, 2);
    await serves('a new Service', 1, 2);
    put(1, 3);
    await serves('a replaced endpoint', 2, 3);

    api.server.intercept = (_path, request) => (request.socket.destroy(), true);
    api.drop();
    await endWatch();
    await node.kill(daemon, 'SIGTERM');
    await reboot(plane.backend);
    expect(await node.endpoints(plane)).toEqual([]);
    expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0 });
    const booted = ['10.244.1.2:8080', '10.244.1.3:8080'];
    expect(await node.endpoints(plane)).toEqual(booted);
    watching = watch();
    let log = '';
    watching.all.on('data', (chunk: Buffer) => (log += chunk));
    node.start();
    await until('the watch says that the API server is away', async () => log.includes('API configmaps'), 60_000);
    await until('the node is healthy with its rules', async () => {
      const { healthy, generation } = JSON.parse((await node.get()) ?? '{}') as Record<string, unknown>;
      return healthy === true && generation !== null;
    });
    expect(await node.endpoints(plane)).toEqual(booted);

    api.server.intercept = (path, request, response) => api.answer(path, request, response);
    put(4, 4);
    await serves('what the API server has by then', 2, 3, 4);
  });
});
