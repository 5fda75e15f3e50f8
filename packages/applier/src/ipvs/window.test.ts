// @module-tag quick
import { expect, test } from 'vitest';
import { endIpvs } from './window.ts';

const server = '10.96.0.10:80/TCP';

/** A clock that moves with each sleep and each count, and a kernel with two connections that do not end. */
function scene(countMs: number) {
  let now = 0;
  const clock = { bootMs: () => now, sleep: async (ms: number) => void (now += ms) };
  const connections = async () => {
    now += countMs;
    return new Map([[server, new Map([['10.244.1.5:8080', 2]])]]);
  };
  return { clock, ipvs: { connections } };
}

test.each([
  [0, 10_000],
  [300, 10_300],
  [2_000, 11_000],
])('waits until the time is over, where each count takes %i ms: %i ms', async (countMs, waitedMs) => {
  const window = await endIpvs({ servers: [server], waitMs: 10_000, remove: async () => undefined }, scene(countMs));
  expect(window).toEqual({ ended: 2, waitedMs, removedInMs: 0 });
});
