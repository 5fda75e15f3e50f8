// Nodes that fetch from `sluice watch --serve`, as loops in one process, started by serve.ts. Says when an event has come, and when a release
// is in the directory of a node.
import { execFileSync } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { mkdirSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { join } from 'node:path';
import { readConfig } from '../../packages/applier/src/config.ts';
import type { FetchNode } from '../../packages/applier/src/fetch/fetch.ts';
import { Follower } from '../../packages/applier/src/fetch/follow.ts';
import { fetchLoop } from '../../packages/applier/src/fetch/loop.ts';
import { FetchMemory } from '../../packages/applier/src/fetch/memory.ts';
import { eventsOf, serversOf, sourceOf } from '../../packages/applier/src/fetch/open.ts';
import { PlacedRelease } from '../../packages/applier/src/fetch/placed.ts';
import type { Source } from '../../packages/applier/src/fetch/source.ts';
import type { Run } from '../../packages/applier/src/kernel/command.ts';
import type { FollowerSays } from './serve.ts';

const [directory = '', scratch = '', port = '', count = '', own = '', of = '', intervalSeconds = '', seed = ''] =
  process.argv.slice(2);
/** The server has more of the processors: nodes have their own. More than that, and other work on the machine ends their connections. */
setPriority(getPriority() + 5);
let requests = 0;
subscribe('http.client.request.start', () => void (requests += 1));

/** No tool is started: neither `sync`, of a disk that all nodes share, nor ssh-keygen. */
const run: Run = async () => ({ exitCode: 0, stdout: '', stderr: '', why: '' });
const gate = { check: async () => ({ kind: 'accepted', release: {}, alarms: [] }) } as unknown as FetchNode['gate'];

/**
 * A node with what it had after its first fetch, but for what differs between nodes: its files are links, which each node replaces.
 * @returns once it has the release
 */
async function start(node: string): Promise<void> {
  const place = join(directory, node);
  mkdirSync(place);
  if (seed !== '') execFileSync('/bin/cp', ['-al', join(seed, 'release'), join(seed, 'blobs'), place]);
  const isFollowing = intervalSeconds === '0';
  const fields = `https: { url: "https://127.0.0.1:${port}", tag: production, events: ${isFollowing} }, caFile: ${join(scratch, 'ca.pem')}`;
  const text = `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: ${node}\nsource: { ${fields}, directory: ${place}, intervalSeconds: ${isFollowing ? 60 : intervalSeconds} }\n`;
  const config = readConfig('bench', text);
  if ('problems' in config || config.source === undefined) throw new Error(JSON.stringify(config));
  const credentials = { environment: {}, run };
  const servers = serversOf(config.source);
  let bytesBefore = 0;
  let source: Source | undefined;
  const say = (what: FollowerSays['what']): void => {
    const atMs = performance.timeOrigin + performance.now();
    process.send?.({ node, what, atMs, bytes: bytesBefore + (source?.bytes ?? 0), requests } satisfies FollowerSays);
  };
  const { source: given } = config;
  async function* events(url: string, signal: AbortSignal): AsyncGenerator<string> {
    for await (const etag of eventsOf(given, credentials, url, signal)) {
      say('event');
      yield etag;
    }
  }
  const placed = Promise.withResolvers<void>();
  const log = {
    info: (_details: object, message: string): void => {
      if (message !== 'placed a release') return;
      say('placed');
      placed.resolve();
    },
    warn: (details: object, message: string): void =>
      void process.stderr.write(`${node}: ${message} ${JSON.stringify(details)}\n`),
  };
  const signal = new AbortController().signal;
  const follower = isFollowing ? new Follower({ node, servers, events, log }) : undefined;
  const fetching: FetchNode = {
    name: node,
    gate,
    placed: new PlacedRelease(place, run),
    memory: new FetchMemory(place, () => performance.now(), 60_000),
    nowMs: Date.now,
  };
  const openNext = sourceOf(given, node, credentials, servers);
  const open = (): Source => {
    bytesBefore += source?.bytes ?? 0;
    return (source = openNext());
  };
  const requestFile = join(scratch, 'request');
  void fetchLoop(
    { node: fetching, directory: place, open, intervalMs: given.intervalSeconds * 1000, follower, requestFile, log },
    signal,
  );
  void follower?.run(signal);
  return placed.promise;
}

for (let n = Number(own); n < Number(count); n += Number(of)) await start(`node-${String(n).padStart(4, '0')}`);
