import { getEventListeners } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { openAccess } from '../../packages/renderer/src/cluster/access.ts';
import { type ObjectChange, Feed } from '../../packages/renderer/src/cluster/watch/feed.ts';
import type { WatchPatience } from '../../packages/renderer/src/cluster/watch/reflector.ts';
import { send, type Item, token } from './apiserver.fixture.ts';
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

function start(more: Partial<WatchPatience> = {}, user: Item = { token }): void {
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

const names = (): string[] =>
  feed
    .objects()
    .map(({ kind, value }) => `${kind} ${(value['metadata'] as { name: string }).name}`)
    .toSorted();
const about = (): string[] => changes.map((change) => change.about);

test('what is created, changed and deleted is known, and said once', async () => {
  cluster.put('services', serviceOf('b', 2));
  cluster.put('services', serviceOf('b', 3));
  cluster.remove('endpointslices', 'a-1');
  await until(() => changes.length === 3);
  expect(about().toSorted()).toEqual(['Service shop/a', 'Service shop/b', 'Service shop/b']);
  expect(names()).toEqual(['Node node-a', 'Service a', 'Service b']);
});

test('a ServiceCIDR that ends, or is not ready, is a change', async () => {
  const { metadata, ...rest } = serviceCIDROf('more', '10.200.0.0/24');
  const deletionTimestamp = '2026-01-02T03:04:05Z';
  cluster.put('servicecidrs', { metadata, ...rest });
  cluster.put('servicecidrs', { metadata, ...rest, status: { conditions: [{ type: 'Ready', status: 'False' }] } });
  cluster.put('servicecidrs', { metadata: { ...(metadata as Item), deletionTimestamp }, ...rest });
  await until(() => changes.length === 3);
  const { metadata: kept, status } = feed.objects().find(({ kind }) => kind === 'ServiceCIDR')!.value;
  expect([kept, status]).toEqual([{ name: 'more', deletionTimestamp }, undefined]);
});

test('a ServiceCIDR is followed, but not what only the API server looks at', async () => {
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
  'ServiceCIDRs that the server %s are left out, said once, and the rest is followed',
  async (_title, status, word) => {
    stop.abort();
    await running;
    const answer = cluster.server.meddle;
    cluster.server.meddle = (path, request, response) => {
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

test('an object that did not change is the same value, whatever else of it changed', async () => {
  const before = feed.objects();
  cluster.put('nodes', { ...node, status: { ...(node['status'] as Item), conditions: [{ heartbeat: 'now' }] } });
  cluster.put('services', serviceOf('b', 2));
  await until(() => changes.length > 0);
  expect(about()).toEqual(['Service shop/b']);
  for (const object of before) expect(feed.objects()).toContain(object);
});

test('the time at which endpoints changed comes along', async () => {
  const annotations = { 'endpoints.kubernetes.io/last-change-trigger-time': '2026-01-01T00:00:01Z' };
  const metadata = { ...(slice['metadata'] as Item), annotations };
  cluster.put('endpointslices', { ...slice, metadata, endpoints: [] });
  await until(() => changes.length > 0);
  expect(changes).toEqual([{ about: 'Service shop/a', triggeredMs: Date.UTC(2026, 0, 1, 0, 0, 1) }]);
});

test.each<[string, () => void]>([
  ['are dropped', () => cluster.drop()],
  ['end in order', () => cluster.drop('end')],
  [
    'end after a bookmark, and what was before it is forgotten',
    () => (cluster.bookmark(), cluster.compact(), cluster.drop('end')),
  ],
])('nothing is lost when the watches %s, and nothing is listed again', async (_title, happen) => {
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

test('watches that are cut again and again, each after a while, are taken up again at once', async () => {
  stop.abort();
  await running;
  start({ backoffMs: 50, backoffMaxMs: 60_000 });
  // Were these failures in a row, the last wait would be half a minute at least.
  for (let cut = 0; cut < 11; cut++) {
    await until(() => cluster.watching === 4);
    await new Promise((resolve) => setTimeout(resolve, 150));
    cluster.drop();
  }
  cluster.put('services', serviceOf('b', 2));
  await vi.waitFor(() => expect(names()).toContain('Service b'), { timeout: 10_000, interval: 5 });
});

test('what happened while the place was forgotten is found by listing again', async () => {
  cluster.server.meddle = (_path, request) => (request.socket.destroy(), true);
  cluster.drop();
  cluster.put('services', serviceOf('b', 2));
  cluster.remove('services', 'a');
  cluster.compact();
  await until(() => away.length > 0);
  expect(names()).toContain('Service a');
  cluster.server.meddle = (path, request, response) => cluster.answer(path, request, response);
  await until(() => names().join() === 'EndpointSlice a-1,Node node-a,Service b');
  expect(about().toSorted()).toEqual(['Service shop/a', 'Service shop/b']);
});

test.each<[string, (path: string) => number | string]>([
  ['410 at once', () => 410],
  ['500', () => 500],
  ['403', () => 403],
  ['something that is no event', () => 'hello\n'],
  ['an event without end', () => 'x'.repeat(200_000)],
])('a watch that is answered with %s for a while loses nothing', async (_title, reply) => {
  let times = 0;
  cluster.server.meddle = (path, request, response) => {
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

test('a connection on which nothing comes is opened again, and what it may have kept back is listed', async () => {
  stop.abort();
  await running;
  start({ silenceMs: 100 });
  await until(() => feed.isComplete);
  // As a proxy that passes on the head of an answer and keeps its body.
  cluster.server.meddle = (path, request, response) => {
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
  ['a page that asks for a login', '<html>log in</html>'],
  ['one of several lines', '<html>\n</html>\n'],
  ['nothing at all', ''],
])(
  'watches that are answered with success and %s are told to be no news, with ever longer waits',
  async (_title, page) => {
    stop.abort();
    await running;
    start({ backoffMs: 20, backoffMaxMs: 60_000 });
    await until(() => feed.isComplete && cluster.watching === 4);
    let isOpen = false;
    cluster.server.meddle = (path, request, response) => {
      if (isOpen || !path.includes('watch=1')) return cluster.answer(path, request, response);
      response.writeHead(200).end(page);
      return true;
    };
    cluster.server.asked.length = 0;
    cluster.drop();
    cluster.put('services', serviceOf('b', 2));
    await until(() => away.length >= 9);
    // Three kinds; one that came back every 20 ms would have asked for hundreds by now.
    expect(cluster.server.asked.length).toBeLessThan(40);
    expect(feed.isComplete).toBe(true);
    isOpen = true;
    await until(() => names().includes('Service b'));
  },
);

test('streams that ended leave nothing behind at the signal that ends all of them', async () => {
  const hanging = (): number => getEventListeners(stop.signal, 'abort').length;
  const few = hanging();
  for (let cut = 0; cut < 5; cut++) {
    cluster.drop();
    await until(() => cluster.watching === 4);
  }
  expect(hanging()).toBeLessThanOrEqual(few);
});

test('a certificate and a key that do not belong together, as while they are renewed, are waited for', async () => {
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
