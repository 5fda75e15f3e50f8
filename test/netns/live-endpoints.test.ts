// @module-tag test
import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { makeKey, signBy } from '@sluice/testing';
import { execa } from 'execa';
import { beforeEach, describe, expect, test } from 'vitest';
import { sluicePath as sluice } from '../cluster/program.fixture.ts';
import { needBackend } from './privileges.ts';
import { until } from './sluiced-node.ts';
import * as scene from './watched-node.ts';
import { api, endWatch, fromCluster, node, path, pod, putEndpoints, putService } from './watched-node.ts';

/** Signed releases with live endpoints: an API server, `sluice watch --release`, `sluiced run`, and packets of the node to its Services. */

scene.watchedNode();
const watch = () => scene.watch('--node', 'node-a', '--release', path('rendered'), '-o', path('live'));

/** Makes the next release of what the cluster has now, signed by a key in a file of this name. @param more options of it */
async function release(by: string, ...more: readonly string[]): Promise<void> {
  rmSync(path('bundle'), { recursive: true, force: true });
  await execa(sluice, ['render', '--from-cluster', ...fromCluster(), '-o', path('bundle')]);
  const terms = ['--serial', 'auto', '--source', 'c'.repeat(40), ...more];
  await execa(sluice, ['release', path('bundle'), ...terms, '-o', path('rendered')]);
  await execa(sluice, ['sign', path('rendered'), '--key', path(by)]);
}

/** Opens further waves of the release, up to a number, as an operator does by hand. */
function openWaves(count: number): void {
  const file = path('rendered/waves-open.yaml');
  const text = readFileSync(file, 'utf8').replace(/^open: .*$/m, `open: ${count}`);
  writeFileSync(`${file}.sig`, signBy(path('alice'), 'sluice-wave', text));
  writeFileSync(file, text);
}

function keyOf(name: string): string {
  return `${name} namespaces="sluice-release,sluice-wave" ${makeKey(path(name))}\n`;
}

/** The pods are addresses of this namespace, with one server that says which of them a client has reached. */
async function startPods(): Promise<void> {
  const addresses = Array.from({ length: 8 }, (_one, at) => `ip addr add ${pod(at + 1)}/32 dev lo`);
  await node.tool(['sh', '-ec', [...addresses, 'ip route add 10.96.0.0/12 dev lo'].join('\n')]);
  const server = `require('node:http').createServer((_, to) => to.end(to.socket.localAddress + '\\n')).listen(8080, '0.0.0.0')`;
  node.startProgram([process.execPath, '-e', server]);
}

/** Which pods answer at the Service, by 24 new connections at once; empty: all were refused or lost. */
async function reached(n: number): Promise<readonly string[]> {
  const ask = `curl -s -m 1 -Z --parallel-immediate -H 'Connection: close' 'http://10.96.0.${n}/?[1-24]' || true`;
  const text = await node.tool(['sh', '-c', ask]);
  return [...new Set(text.split('\n').filter(Boolean))].toSorted();
}

/** Opens a connection to a Service again and again. @returns ends that, and tells how many there were, and how many failed */
function connectAgain(n: number): () => Promise<readonly [tried: number, failed: number]> {
  const once = `curl -s -m 2 -o /dev/null http://10.96.0.${n}/ && echo done || echo failed`;
  const client = node.startProgram(['sh', '-c', `while :; do ${once}; done`]);
  let said = '';
  client.stdout?.on('data', (chunk: Buffer) => (said += String(chunk)));
  const count = (word: string): number => said.split(`${word}\n`).length - 1;
  return async () => {
    await node.kill(client);
    return [count('done') + count('failed'), count('failed')];
  };
}

interface NodeStatus {
  readonly notes: Readonly<Record<string, string>>;
  readonly release: { readonly serial: number } | null;
  readonly waits: { readonly wave: number } | null;
  readonly healthy: boolean;
}
const status = async (): Promise<Partial<NodeStatus>> => JSON.parse((await node.get()) ?? '{}') as Partial<NodeStatus>;
const reaches = (what: string, n: number, ...pods: readonly number[]): Promise<unknown> =>
  until(what, async () => (await reached(n)).join() === pods.map(pod).join(), 60_000);

const planes = scene.watchedPlanes('live endpoints');

describe.each(planes)('mode $mode, layout $layout, store $backend', { timeout: 360_000 }, (plane) => {
  beforeEach(async (context) => {
    needBackend(context, plane.backend);
    const signers = path('allowed_signers');
    writeFileSync(signers, keyOf('alice'), { mode: 0o644 });
    keyOf('mallory');
    const live = `endpoints: {lastAfterSeconds: 1, live: {directory: ${path('live')}}}\n`;
    scene.configure(plane, `signatures: {allowedSigners: ${signers}}\n${live}`);
    putService(1);
    putEndpoints(1, pod(1));
    await startPods();
    await release('alice');
  });

  test('the API server changes endpoints of signed Services, and nothing else', async () => {
    putEndpoints(1, pod(2));
    putService(2);
    putEndpoints(2, pod(5));
    watch();
    const daemon = node.start();
    await reaches('the endpoint of now', 1, 2);
    await until('the node says which Services the release lacks', async () =>
      ((await status()).notes?.['LIVE_ENDPOINTS'] ?? '').includes('not in its release and not served: shop/s2'),
    );
    expect((await node.sluiced('status')).stdout).toMatch(/^note +LIVE_ENDPOINTS: .*shop\/s2$/m);
    putEndpoints(1, pod(1), pod(2), pod(3), pod(4));
    await reaches('more endpoints', 1, 1, 2, 3, 4);
    putEndpoints(1, pod(3));
    await reaches('most endpoints less', 1, 3);
    putEndpoints(1);
    await reaches('no endpoint', 1);
    putEndpoints(1, pod(4));
    await reaches('a first endpoint', 1, 4);
    expect(await reached(2)).toEqual([]);
    expect((await node.sluiced('doctor', 'shop/s2')).stdout).toContain('the release of this node does not');

    putEndpoints(1, '203.0.113.5');
    await until('the node says what it declines', async () =>
      ((await status()).notes?.['LIVE_ENDPOINTS'] ?? '').includes('203.0.113.5:8080'),
    );
    expect(await reached(1)).toEqual([pod(4)]);
    expect((await status()).healthy).toBe(true);
    expect((await node.sluiced('doctor', 'shop/s1')).stdout).toContain('live endpoints are not taken of shop/s1: ');

    await release('alice');
    await reaches('a Service of the next release', 2, 5);
    putEndpoints(2, pod(6));
    await reaches('its next endpoint', 2, 6);
    expect((await status()).release?.serial).toBe(2);

    await node.kill(daemon, 'SIGTERM');
    expect(await node.sluiced('apply', path('rendered'))).toMatchObject({ exitCode: 0 });
    expect(await reached(2)).toEqual([pod(6)]);
    chmodSync(path('live'), 0o777);
    expect((await node.sluiced('preflight')).stdout).toContain(
      'FAIL  endpoints.live (Cannot trust the directory of endpoints.live: ',
    );
    expect(await node.sluiced('apply', path('rendered'))).toMatchObject({ exitCode: 2 });
    expect(await reached(2)).toEqual([pod(6)]);
  });

  test('a release goes in with its wave while live endpoints change, and no connection is lost', async () => {
    watch();
    node.start();
    putEndpoints(1, pod(2));
    await reaches('the endpoint of now', 1, 2);
    putService(2);
    putEndpoints(2, pod(5));
    const waves = 'waves: [{name: canary, nodes: [node-b]}, {name: others, nodes: [node-a]}]';
    writeFileSync(path('waves.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: Waves\n${waves}\n`);
    await release('alice', '--wave', path('waves.yaml'));
    // The first wave, of the other node.
    await execa(sluice, ['promote', path('rendered'), '--key', path('alice')]);
    await until('the node waits for its wave', async () => (await status()).waits?.wave === 2, 60_000);
    putEndpoints(1, pod(3));
    await reaches('an endpoint beside a release that waits', 1, 3);
    expect(await reached(2)).toEqual([]);
    expect((await status()).release?.serial).toBe(2);

    const ended = connectAgain(1);
    let turn = 0;
    const changes = setInterval(() => putEndpoints(1, pod(3 + (turn++ % 2))), 200);
    try {
      openWaves(2);
      await reaches('a Service of the release', 2, 5);
    } finally {
      clearInterval(changes);
    }
    putEndpoints(1, pod(1));
    putEndpoints(2, pod(6));
    await reaches('an endpoint after the wave', 1, 1);
    await reaches('an endpoint of the new Service', 2, 6);
    const [tried, failed] = await ended();
    expect(failed).toBe(0);
    expect(tried).toBeGreaterThan(20);
    expect(turn).toBeGreaterThan(2);
    expect(await status()).toMatchObject({ waits: null, healthy: true });
  });

  test('endpoints go on beside a release that is refused, and stay without the API server and at a boot', async () => {
    watch();
    const daemon = node.start();
    putEndpoints(1, pod(2));
    await reaches('the endpoint of now', 1, 2);
    putService(2);
    putEndpoints(2, pod(5));
    await release('mallory');
    await until('the release is refused', async () =>
      ((await node.get('/status')) ?? '').includes('not in allowed_signers'),
    );
    putEndpoints(1, pod(3));
    await reaches('an endpoint beside a refused release', 1, 3);
    expect(await reached(2)).toEqual([]);

    api.server.intercept = (_path, request) => (request.socket.destroy(), true);
    api.drop();
    await endWatch();
    await node.kill(daemon, 'SIGTERM');
    rmSync(path('live'), { recursive: true });
    await node.forgetRules(plane.backend);
    expect(await reached(1)).toEqual([]);
    expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0 });
    expect(await reached(1)).toEqual([pod(3)]);
    watch();
    node.start();
    await until('the node runs with its rules', async () => (await status()).release !== undefined);
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(await reached(1)).toEqual([pod(3)]);

    api.server.intercept = (one, request, response) => api.answer(one, request, response);
    putEndpoints(1, pod(4));
    await release('alice');
    await reaches('what the API server has by then', 1, 4);
    await reaches('a Service that is signed by then', 2, 5);
  });
});
