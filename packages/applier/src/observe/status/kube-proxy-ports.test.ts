// @module-tag quick
import { expect, onTestFinished, test } from 'vitest';
import { emptyNft } from '@sluice/netfilter';
import { StatusPort } from '../health/status-port.ts';
import type { Generation } from '../../ports/journal.ts';
import { answerHealth, answerMetrics } from './kube-proxy-ports.ts';
import { Status } from './status.ts';

const generation: Generation = {
  number: 1,
  revision: 0,
  version: 'v1',
  state: { families: {}, sysctls: new Map(), nft: emptyNft },
};

/** A status whose times are set by the test, on the two ports of kube-proxy. */
async function serve() {
  const times = { nowMs: 5000, monotonicMs: 0 };
  const status = new Status(
    'node-a',
    () => times.monotonicMs,
    1000,
    () => times.nowMs,
  );
  const ask: Record<string, (path: string) => Promise<Response>> = {};
  for (const [name, answer] of [
    ['health', answerHealth(() => status.proxyView)],
    ['metrics', answerMetrics(() => status.proxyView)],
  ] as const) {
    const port = new StatusPort('127.0.0.1:0', { answer, failed: (why) => expect(why).toBeUndefined() });
    await port.refresh();
    onTestFinished(() => port.close());
    ask[name] = (path) => fetch(`http://127.0.0.1:${port.number}${path}`);
  }
  return { times, status, health: ask['health']!, metrics: ask['metrics']! };
}

test('answers load balancers as kube-proxy does, before and after the first sync', async () => {
  const { times, status, health } = await serve();
  const before = await health('/healthz');
  expect(before.status).toBe(503);
  expect(await before.json()).toEqual({
    lastUpdated: '0001-01-01T00:00:00Z',
    currentTime: '1970-01-01T00:00:05.000Z',
    nodeEligible: true,
    healthy: false,
  });
  status.activate(generation);
  status.ended({ kind: 'confirmed', generation, steps: 1 }, 0.1);
  times.nowMs = 9000;
  const after = await health('/healthz?verbose');
  expect(after.status).toBe(200);
  expect(after.headers.get('content-type')).toBe('application/json');
  const families = { lastUpdated: '1970-01-01T00:00:05.000Z', healthy: true };
  expect(await after.json()).toEqual({
    lastUpdated: '1970-01-01T00:00:09.000Z',
    currentTime: '1970-01-01T00:00:09.000Z',
    nodeEligible: true,
    healthy: true,
    status: { IPv4: families, IPv6: families },
  });
});

test('/livez depends on the main loop alone, and both paths are counted', async () => {
  const { times, status, health, metrics } = await serve();
  status.raise('KERNEL', 'it cannot be read');
  expect((await health('/livez')).status).toBe(200);
  times.monotonicMs = 1000;
  const stalled = await health('/livez');
  expect(stalled.status).toBe(503);
  expect(await stalled.json()).not.toHaveProperty('nodeEligible');
  expect((await health('/healthz')).status).toBe(503);
  const text = await (await metrics('/metrics')).text();
  expect(text).toContain('\nkubeproxy_proxy_livez_total{code="200"} 1\n');
  expect(text).toContain('\nkubeproxy_proxy_livez_total{code="503"} 1\n');
  expect(text).toContain('\nkubeproxy_proxy_healthz_total{code="503"} 1\n');
});

test('answers scrapers as kube-proxy does', async () => {
  const { status, metrics } = await serve();
  expect((await metrics('/proxyMode')).status).toBe(503);
  status.activate(generation);
  expect(await (await metrics('/proxyMode')).text()).toBe('nftables');
  expect(await (await metrics('/healthz')).text()).toBe('ok');
  expect((await metrics('/metrics')).headers.get('content-type')).toContain('version=0.0.4');
});

test('tells nothing else: no alarms, no other paths, no other methods', async () => {
  const { status, health, metrics } = await serve();
  status.raise('KERNEL', 'a secret of the node');
  expect(await (await health('/healthz')).text()).not.toContain('secret');
  for (const ask of [health, metrics]) expect((await ask('/status')).status).toBe(404);
  expect((await health('/metrics')).status).toBe(404);
});

test('a drained node is not eligible, and still healthy and alive', async () => {
  const { status, health } = await serve();
  status.activate(generation);
  const asked: string[] = [];
  let now: object | undefined = {};
  const drain = {
    get now() {
      return now as never;
    },
    answers: (address: string) => void asked.push(address),
  };
  status.watches({ sight: () => ({ ageMs: 0, why: undefined }), slowTool: () => undefined, drain });
  const drained = await health('/healthz');
  expect(drained.status).toBe(503);
  expect(await drained.json()).toMatchObject({ nodeEligible: false, healthy: true });
  expect((await health('/livez')).status).toBe(200);
  expect(status.report()).toMatchObject({ healthy: true, draining: {} });
  now = undefined;
  expect((await health('/healthz')).status).toBe(200);
  expect(asked, 'health checks alone').toEqual(['127.0.0.1', '127.0.0.1']);
});

test('a Node that the cluster is to delete is not eligible, and still healthy', async () => {
  const { status, health, metrics } = await serve();
  status.activate(generation);
  const drain = { now: undefined, ineligible: 'ToBeDeletedByClusterAutoscaler' as const, answers: () => undefined };
  status.watches({ sight: () => ({ ageMs: 0, why: undefined }), slowTool: () => undefined, drain });
  const answer = await health('/healthz');
  expect(answer.status).toBe(503);
  expect(await answer.json()).toMatchObject({ nodeEligible: false, healthy: true });
  expect((await health('/livez')).status).toBe(200);
  expect(status.report()).toMatchObject({ healthy: true, draining: null, ineligible: drain.ineligible });
  expect(await (await metrics('/metrics')).text()).toMatch(/^sluice_node_eligible 0$/m);
});
