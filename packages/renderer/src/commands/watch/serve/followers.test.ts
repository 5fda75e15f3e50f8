import type { ServerResponse } from 'node:http';
import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { heartbeat } from '@sluice/transport/content/events.ts';
import { Followers } from './followers.ts';
import { serveLimits } from './limits.ts';

/** A follower that takes what is written only when it is told to. */
class SlowReader extends Writable {
  readonly taken: string[] = [];
  readonly #waiting: (() => void)[] = [];

  constructor() {
    super({ highWaterMark: 64 });
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.taken.push(chunk.toString('utf8'));
    this.#waiting.push(done);
  }

  /** Takes all that there is. */
  async take(): Promise<void> {
    for (let done = this.#waiting.shift(); done; done = this.#waiting.shift()) {
      done();
      await new Promise((next) => setImmediate(next));
    }
  }
}

const event = (n: number): string => `event ${String(n).padStart(3, '0')} ${'x'.repeat(40)}`;
const asResponse = (stream: Writable): ServerResponse => stream as unknown as ServerResponse;

test('a follower that reads slowly holds a few events, and gets the newest one when it reads again', async () => {
  const followers = new Followers(() => 0);
  const slow = new SlowReader();
  followers.add(asResponse(slow), event(0));
  for (let n = 1; n <= 500; n++) followers.tell(event(n));
  expect(slow.writableLength).toBeLessThan(200);
  await slow.take();
  expect(slow.taken.at(-1)).toBe(event(500));
  expect(slow.taken.length).toBeLessThan(5);
  followers.tell(event(501));
  await slow.take();
  expect(slow.taken.at(-1)).toBe(event(501));
});

test('a follower that takes nothing is disconnected after a while, and others are not', async () => {
  let nowMs = 0;
  const followers = new Followers(() => nowMs);
  const [slow, quick] = [new SlowReader(), new SlowReader()];
  for (const one of [slow, quick]) followers.add(asResponse(one), event(0));
  for (let n = 1; n < 5; n++) {
    followers.tell(event(n));
    await quick.take();
  }
  nowMs = serveLimits.stalledMs - 1;
  followers.beat();
  expect([slow.destroyed, quick.destroyed]).toEqual([false, false]);
  nowMs += 1;
  followers.beat();
  expect([slow.destroyed, quick.destroyed]).toEqual([true, false]);
  await quick.take();
  expect(quick.taken).toContain(heartbeat);
  expect(followers.count).toBe(1);
});

test('those that are gone are forgotten', async () => {
  const followers = new Followers(() => 0);
  const one = new SlowReader();
  followers.add(asResponse(one), undefined);
  expect(followers.count).toBe(1);
  one.destroy();
  await new Promise((next) => setImmediate(next));
  expect(followers.count).toBe(0);
});
