// @module-tag quick
import { KernelError } from '../failure.ts';
import { expect, test } from 'vitest';
import { describeWindow, endIpvs } from './window.ts';

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

test.each([0, 1])(
  'removes at once what it cannot count connections of, from count %i on, and says so',
  async (failing) => {
    const { clock, ipvs } = scene(0);
    let counts = 0;
    const connections = async () => {
      if (counts++ === failing) throw new KernelError('ipvsadm', 'killed', 'killed');
      return ipvs.connections();
    };
    const removed: unknown[] = [];
    const remove = async (open: number | undefined): Promise<void> => void removed.push(open);
    const window = await endIpvs({ servers: [server], waitMs: 10_000, remove }, { clock, ipvs: { connections } });
    expect(window).toEqual({ waitedMs: failing * 1_000, removedInMs: 0 });
    expect(removed).toEqual([undefined]);
    expect(describeWindow(window)).toContain('an unknown number of established connections');
  },
);

test('fails where the removal fails', async () => {
  const remove = (): Promise<never> => Promise.reject(new KernelError('ip', 'killed', 'killed'));
  await expect(endIpvs({ servers: [], waitMs: 0, remove }, scene(0))).rejects.toThrow('killed');
});
