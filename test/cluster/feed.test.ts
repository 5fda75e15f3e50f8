import { getEventListeners } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { openAccess } from '../../packages/renderer/src/cluster/access.ts';
import { type ObjectChange, Feed } from '../../packages/renderer/src/cluster/watch/feed.ts';
import type { WatchPatience } from '../../packages/renderer/src/cluster/watch/reflector.ts';
import type { KubeObject } from '../../packages/renderer/src/render/model/kube.ts';
import { send, type ApiObject, token } from './apiserver.fixture.ts';
import { LiveCluster } from './live.fixture.ts';
import { node, serviceCIDROf, serviceOf, slice } from './objects.fixture.ts';

const patience: WatchPatience = {
  requestTimeoutMs: 1_000,
  answerBytesMax: 1_000_000,
  backoffMs: 5,
  backoffMaxMs: 20,
  silenceMs: 2_000,
  watchSeconds: 300,
  lineBytesMax: 100_000,
};

let cluster: LiveCluster;
let feed: Feed;
let changes: ObjectChange[];
let away: string[];
let notWatched: string[];
let stop: AbortController;
let running: Promise<void>;

beforeAll(() => vi.setConfig({ testTimeout: 20_000 }));
beforeEach(async () => {
  cluster = await LiveCluster.start();
  cluster.put('services', serviceOf('a', 1));
  cluster.put('endpointslices', slice);
  cluster.put('nodes', node);
  start();
  await until(() => feed.isComplete && cluster.watching === 4);
  changes.length = 0;
});
afterEach(async () => {
  stop.abort();
  await running;
  await cluster.server.close();
});
afterAll(() => vi.resetConfig());

function start(more: Partial<WatchPatience> = {}, user: ApiObject = { token }): void {
  [changes, away, notWatched, stop] = [[], [], [], new AbortController()];
  const access = openAccess({ kubeconfig: cluster.server.kubeconfig(user) }, {});
  const listener = {
    changed: (change: ObjectChange) => changes.push(change),
    current: () => {},
    away: (_kind: unknown, why: string) => away.push(why),
    notWatched: ({ resource }: { resource: string }, why: string) => notWatched.push(`${resource}: ${why}`),
  };
  feed = new Feed(access, listener, { ...patience, ...more });
  running = feed.run(stop.signal);
}

async function until(condition: () => boolean): Promise<void> {
  await vi.waitFor(() => expect(condition()).toBe(true), { timeout: 10_000, interval: 5 });
}

const listed = (): readonly KubeObject[] => [...feed.objects().values()];
const names = (): string[] =>
  listed()
    .map(({ kind, value }) => `${kind} ${(value['metadata'] as { name: string }).name}`)
    .toSorted();
const about = (): string[] => changes.map((change) => change.about);

test('reports creation, change and deletion once each', async () => {
  cluster.put('services', serviceOf('b', 2));
  cluster.put('services', serviceOf('b', 3));
  cluster.remove('endpointslices', 'a-1');
  await until(() => changes.length === 3);
  expect(about().toSorted()).toEqual(['Service shop/a', 'Service shop/b', 'Service shop/b']);
  expect(names()).toEqual(['Node node-a', 'Service a', 'Service b']);
});

test('reports a ServiceCIDR that is being deleted, or is not ready, as a change', async () => {
  const { metadata, ...rest } = serviceCIDROf('more', '10.200.0.0/24');
  const deletionTimestamp = '2026-01-02T03:04:05Z';
  cluster.put('servicecidrs', { metadata, ...rest });
  cluster.put('servicecidrs', { metadata, ...rest, status: { conditions: [{ type: 'Ready', status: 'False' }] } });
  cluster.put('servicecidrs', { metadata: { ...(metadata as ApiObject), deletionTimestamp }, ...rest });
  await until(() => changes.length === 3);
  const { metadata: kept, status } = listed().find(({ kind }) => kind === 'ServiceCIDR')!.value;
  expect([kept, status]).toEqual([{ name: 'more', deletionTimestamp }, undefined]);
});

test('follows a ServiceCIDR, but not fields for the API server alone', async () => {
  cluster.put('servicecidrs', serviceCIDROf('kubernetes', '10.96.0.0/16'));
  cluster.put('servicecidrs', { ...serviceCIDROf('kubernetes', '10.96.0.0/16'), status: {} });
  cluster.put('servicecidrs', serviceCIDROf('more', '10.200.0.0/24'));
  cluster.remove('servicecidrs', 'more', '');
  await until(() => changes.length === 3);
  expect(about()).toEqual(['ServiceCIDR kubernetes', 'ServiceCIDR more', 'ServiceCIDR more']);
  expect(names()).toContain('ServiceCIDR kubernetes');
});

test.each<[string, number, RegExp]>([
  ['does not have', 404, /^servicecidrs: https:\S+ does not have servicecidrs$/],
  ['refuses', 403, /^servicecidrs: Cannot list servicecidrs .*\{apiGroups: \["networking.k8s.io"\]/],
])(
  'leaves out ServiceCIDRs that the server %s, reports that once, and follows the rest',
  async (_title, status, word) => {
    stop.abort();
    await running;
    const answer = cluster.server.intercept;
    cluster.server.intercept = (path, request, response) => {
      if (!path.includes('/servicecidrs')) return answer(path, request, response);
      send(response, status, {});
      return true;
    };
    start();
    await until(() => feed.isComplete && cluster.watching === 3);
    cluster.put('services', serviceOf('b', 2));
    await until(() => names().includes('Service b'));
    expect(notWatched).toEqual([expect.stringMatching(word)]);
    expect(away).toEqual([]);
  },
);

test('an object keeps its value when only ignored fields changed', async () => {
  const before = listed();
  cluster.put('nodes', { ...node, status: { ...(node['status'] as ApiObject), conditions: [{ heartbeat: 'now' }] } });
  cluster.put('services', serviceOf('b', 2));
  await until(() => changes.length > 0);
  expect(about()).toEqual(['Service shop/b']);
  for (const object of before) expect(listed()).toContain(object);
});

test.each([false, true])(
  'an object has an equal value each time, and the same value from the server is no change (packed: %s)',
  async (isPacked) => {
    const before = listed().map(({ kind, value }) => [kind, structuredClone(value)]);
    if (isPacked) feed.pack();
    expect(listed().map(({ kind, value }) => [kind, value])).toEqual(before);
    cluster.put('nodes', { ...node, status: { ...(node['status'] as ApiObject), conditions: [{ heartbeat: 'now' }] } });
    cluster.put('services', serviceOf('b', 2));
    await until(() => changes.length === 1);
    expect(about()).toEqual(['Service shop/b']);
  },
);

test('passes on the time of a change of endpoints', async () => {
  const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:01Z' };
  const metadata = { ...(slice['metadata'] as ApiObject), annotations };
  cluster.put('endpointslices', { ...slice, metadata, endpoints: [] });
  await until(() => changes.length > 0);
  expect(changes).toEqual([{ about: 'Service shop/a', isEndpoints: true, triggeredMs: Date.UTC(2026, 0, 1, 0, 0, 1) }]);
});

test.each<[string, () => void]>([
  ['are dropped', () => cluster.drop()],
  ['end cleanly', () => cluster.drop('end')],
  [
    'end after a bookmark, with earlier versions compacted',
    () => (cluster.bookmark(), cluster.compact(), cluster.drop('end')),
  ],
])('loses nothing, and lists nothing again, when the watches %s', async (_title, happen) => {
  cluster.put('services', serviceOf('b', 2));
  await until(() => changes.length === 1);
  cluster.server.asked.length = 0;
  happen();
  await until(() => cluster.watching === 4);
  cluster.put('services', serviceOf('c', 3));
  await until(() => changes.length === 2);
  expect(names()).toEqual(['EndpointSlice a-1', 'Node node-a', 'Service a', 'Service b', 'Service c']);
  expect(cluster.server.asked.filter((path) => path.includes('limit='))).toEqual([]);
});

test('resumes at once watches that are cut repeatedly, each after a while', async () => {
  stop.abort();
  await running;
  start({ backoffMs: 50, backoffMaxMs: 60_000 });
  // If these failures counted as consecutive, the last wait would be half a minute at least.
  for (let cut = 0; cut < 11; cut++) {
    await until(() => cluster.watching === 4);
    await new Promise((resolve) => setTimeout(resolve, 150));
    cluster.drop();
  }
  cluster.put('services', serviceOf('b', 2));
  await vi.waitFor(() => expect(names()).toContain('Service b'), { timeout: 10_000, interval: 5 });
});

test('lists again to find changes after its resource version was compacted', async () => {
  cluster.server.intercept = (_path, request) => (request.socket.destroy(), true);
  cluster.drop();
  cluster.put('services', serviceOf('b', 2));
  cluster.remove('services', 'a');
  cluster.compact();
  await until(() => away.length > 0);
  expect(names()).toContain('Service a');
  cluster.server.intercept = (path, request, response) => cluster.answer(path, request, response);
  await until(() => names().join() === 'EndpointSlice a-1,Node node-a,Service b');
  expect(about().toSorted()).toEqual(['Service shop/a', 'Service shop/b']);
});

test.each<[string, (path: string) => number | string]>([
  ['410 at once', () => 410],
  ['500', () => 500],
  ['403', () => 403],
  ['a line that is not an event', () => 'hello\n'],
  ['an endless event', () => 'x'.repeat(200_000)],
])('a watch that gets %s for a while loses nothing', async (_title, reply) => {
  let times = 0;
  cluster.server.intercept = (path, request, response) => {
    if (!path.includes('watch=1') || times > 8) return cluster.answer(path, request, response);
    times += 1;
    const answer = reply(path);
    if (typeof answer === 'number') send(response, answer, {});
    else response.writeHead(200).write(answer);
    return true;
  };
  cluster.drop();
  cluster.put('services', serviceOf('b', 2));
  await until(() => names().includes('Service b'));
  expect(about()).toContain('Service shop/b');
});

test('reopens a silent connection, and lists what it may have withheld', async () => {
  stop.abort();
  await running;
  start({ silenceMs: 100 });
  await until(() => feed.isComplete);
  // Like a proxy that forwards the head of an answer and withholds its body.
  cluster.server.intercept = (path, request, response) => {
    if (!path.includes('watch=1')) return cluster.answer(path, request, response);
    response.writeHead(200).flushHeaders();
    return true;
  };
  cluster.drop();
  cluster.put('services', serviceOf('b', 2));
  await until(() => about().includes('Service shop/b'));
  expect(away).toEqual([]);
});

test.each([
  ['a login page', '<html>log in</html>'],
  ['a page of several lines', '<html>\n</html>\n'],
  ['an empty body', ''],
])('reports watches that are answered with success and %s as failed, with growing back-off', async (_title, page) => {
  stop.abort();
  await running;
  start({ backoffMs: 20, backoffMaxMs: 60_000 });
  await until(() => feed.isComplete && cluster.watching === 4);
  let isOpen = false;
  cluster.server.intercept = (path, request, response) => {
    if (isOpen || !path.includes('watch=1')) return cluster.answer(path, request, response);
    response.writeHead(200).end(page);
    return true;
  };
  cluster.server.asked.length = 0;
  cluster.drop();
  cluster.put('services', serviceOf('b', 2));
  await until(() => away.length >= 9);
  // Three kinds; a retry every 20 ms would have sent hundreds of requests by now.
  expect(cluster.server.asked.length).toBeLessThan(40);
  expect(feed.isComplete).toBe(true);
  isOpen = true;
  await until(() => names().includes('Service b'));
});

test('ended streams leave no listener on the signal that ends all of them', async () => {
  const hanging = (): number => getEventListeners(stop.signal, 'abort').length;
  const few = hanging();
  for (let cut = 0; cut < 5; cut++) {
    cluster.drop();
    await until(() => cluster.watching === 4);
  }
  expect(hanging()).toBeLessThanOrEqual(few);
});

test('waits while a certificate and its key do not match, as during a renewal', async () => {
  stop.abort();
  await running;
  const at = (name: string): string => join(cluster.server.dir, name);
  const user = { 'client-certificate': at('client.crt'), 'client-key': at('client.key'), token };
  start({}, user);
  await until(() => feed.isComplete && cluster.watching === 4);
  const renewed = readFileSync(at('client.crt'));
  copyFileSync(at('server.crt'), at('client.crt'));
  cluster.drop();
  cluster.put('services', serviceOf('b', 2));
  await until(() => away.some((why) => why.includes('key values mismatch')));
  writeFileSync(at('client.crt'), renewed);
  await vi.waitFor(() => expect(names()).toContain('Service b'), { timeout: 10_000, interval: 5 });
});
