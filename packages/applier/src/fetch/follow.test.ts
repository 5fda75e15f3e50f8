import { expect, test } from 'vitest';
import { retries } from '../paces.ts';
import { Follower } from './follow.ts';
import { fetchLimits } from './limits.ts';
import { Servers } from './servers.ts';

const urls = ['https://one.example.com', 'https://two.example.com'];
const never = new AbortController().signal;

/** A follower whose servers send what a test says, with its clock and what it logs. */
function scene(streams: Readonly<Record<string, readonly string[]>> = {}) {
  const clock = { nowMs: 0 };
  const said: string[] = [];
  const asked: string[] = [];
  const stop = new AbortController();
  const servers = new Servers(urls);
  const log = {
    info: (details: object, message: string) => void said.push(`${message} ${Object.values(details).join()}`),
    warn: (details: object, message: string) => void said.push(`${message} ${Object.values(details).join()}`),
  };
  async function* events(url: string): AsyncGenerator<string> {
    asked.push(url);
    const sent = streams[url];
    if (asked.length === 4) stop.abort();
    if (sent === undefined) throw new Error('it is away');
    yield* sent;
  }
  const follower = new Follower({ node: 'node-a', servers, events, log, nowMs: () => clock.nowMs });
  return { follower, servers, clock, said, asked, stop };
}

test('a server that is away is skipped, and attempts begin with the one that answers', async () => {
  const { follower, servers, said, asked, stop } = scene({ [urls[1] as string]: ['"a"'] });
  await follower.run(stop.signal);
  expect(asked).toEqual([urls[0], urls[1], urls[1], urls[1]]);
  expect(servers.inOrder).toEqual([urls[1], urls[0]]);
  expect(said.slice(0, 3)).toEqual([
    `cannot follow the events of the source: its interval counts ${urls[0]},it is away`,
    `follows the events of the source ${urls[1]}`,
    `cannot follow the events of the source: its interval counts ${urls[1]},the server ended the connection`,
  ]);
}, 20_000);

test('while all of them are away, the pauses grow', async () => {
  const { follower, asked, stop } = scene();
  const startMs = performance.now();
  await follower.run(stop.signal);
  expect(asked).toEqual([...urls, ...urls]);
  expect(performance.now() - startMs).toBeGreaterThan(retries.events.leastMs / 2 - 10);
}, 20_000);

test('an event of what was looked at before asks for nothing', async () => {
  const { follower, servers, stop } = scene({ [urls[0] as string]: ['"a"'] });
  servers.memory(urls[0] as string).index = { etag: '"a"', body: Buffer.from('') };
  await follower.run(stop.signal);
  expect(follower.isDue).toBe(false);
}, 20_000);

test('an event of an ETag that a proxy weakened asks for nothing', async () => {
  const { follower, servers, stop } = scene({ [urls[0] as string]: ['"a"'] });
  servers.memory(urls[0] as string).index = { etag: 'W/"a"', body: Buffer.from('') };
  await follower.run(stop.signal);
  expect(follower.isDue).toBe(false);
}, 20_000);

/** One attempt that an event asked for. */
async function pauseBefore({ follower, clock }: ReturnType<typeof scene>, hasFound: boolean): Promise<number> {
  const run = new AbortController();
  const running = follower.run(run.signal);
  await follower.wait(1_000, never);
  run.abort();
  await running;
  const startMs = clock.nowMs;
  while (!follower.isDue) clock.nowMs += 10;
  follower.begin();
  expect(follower.isDue).toBe(false);
  follower.ended(hasFound ? 'placed' : 'same');
  return clock.nowMs - startMs;
}

test('while a cache has the index of before, it is looked at again, until it has that of the event', async () => {
  const { follower, servers, clock, stop } = scene({ [urls[0] as string]: ['"b"'] });
  const memory = servers.memory(urls[0] as string);
  memory.index = { etag: '"a"', body: Buffer.from('') };
  await follower.run(stop.signal);
  const looks: number[] = [];
  const look = (outcome: 'same' | 'failed'): void => {
    follower.begin();
    follower.ended(outcome);
    looks.push(clock.nowMs);
  };
  for (look('same'); clock.nowMs < 600_000; clock.nowMs += 100) if (follower.isDue) look('same');
  expect(looks).toEqual([0, 200, 600, 1_400, 3_000, 6_200, 12_600, 25_400, 51_000, 102_200]);
  // Events go on to ask, and an attempt that fails is repeated by the loop.
  stop.abort();
  const again = scene({ [urls[0] as string]: ['"b"'] });
  await again.follower.run(again.stop.signal);
  again.follower.begin();
  again.follower.ended('failed');
  again.clock.nowMs = 600_000;
  expect(again.follower.isDue).toBe(false);
  again.servers.memory(urls[0] as string).index = { etag: '"b"', body: Buffer.from('') };
  again.follower.ended('same');
  expect(again.follower.isDue).toBe(false);
}, 20_000);

test('events that lead to nothing make the next ones wait, until one leads to a release', async () => {
  const one = scene({ [urls[0] as string]: ['"a"'] });
  const pauses: number[] = [];
  for (const hasFound of [true, false, false, false, true, true]) pauses.push(await pauseBefore(one, hasFound));
  const { eventPauseMs } = fetchLimits;
  expect(pauses).toEqual([0, ...[1, 2, 4, 8, 1].map((factor) => factor * eventPauseMs)]);
});

test('an event ends the wait of the loop at once', async () => {
  const { follower, stop } = scene({ [urls[0] as string]: ['"a"'] });
  const startMs = performance.now();
  const waiting = follower.wait(10_000, never);
  const running = follower.run(stop.signal);
  await waiting;
  expect(performance.now() - startMs).toBeLessThan(5_000);
  stop.abort();
  await running;
});
