import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { limits, retries } from '../../limits.ts';
import { Forgetting } from './forgetting.ts';
import type { TrackedFlow } from '../../ports/kernel.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const flow = (port: number): TrackedFlow => ({
  family: 'ipv4',
  protocol: 'udp',
  address: '10.96.0.10',
  port,
  endpoint: '10.244.1.5:53',
});

/** A kernel that deletes entries when the test lets it. */
function scene(listed: (attempt: number) => boolean = () => true) {
  const events: string[] = [];
  const asked: { readonly ports: readonly number[]; readonly end: (failure?: string) => void }[] = [];
  const forgetting = new Forgetting({
    kernel: {
      forgetFlows: async (flows, found) => {
        const { promise, resolve, reject } = Promise.withResolvers<number>();
        if (listed(asked.length)) found?.(5000);
        asked.push({
          ports: flows.map(({ port }) => port),
          end: (failure) => (failure === undefined ? resolve(5000) : reject(new Error(failure))),
        });
        return promise;
      },
    },
    report: (event, details) => void events.push([event, ...Object.values(details).map(String)].join(' ')),
  });
  return { events, asked, forgetting };
}

test('waits until the entries are deleted if that is fast', async () => {
  const { events, asked, forgetting } = scene();
  const done = forgetting.forget([flow(53)]);
  asked[0]?.end();
  await done;
  expect(events).toEqual(['flows-forgotten 5000']);
});

test('stops waiting after the limit, and reports stale flows until none remain', async () => {
  const { events, asked, forgetting } = scene();
  const done = forgetting.forget([flow(53)]);
  await vi.advanceTimersByTimeAsync(limits.forgettingMsMax);
  await done;
  expect(events).toEqual(['flows-stale 5000 it takes longer than 2 s and continues in the background']);
  asked[0]?.end();
  await vi.advanceTimersByTimeAsync(0);
  expect(events.slice(1)).toEqual(['flows-forgotten 5000', 'flows-healed']);
});

test('tells no number of an attempt that lists nothing, not that of an earlier one either', async () => {
  const { events, asked, forgetting } = scene((attempt) => attempt === 0);
  const first = forgetting.forget([flow(53), flow(54)]);
  asked[0]?.end();
  await first;
  const second = forgetting.forget([flow(53)]);
  await vi.advanceTimersByTimeAsync(limits.forgettingMsMax);
  await second;
  expect(events.at(-1)).toBe('flows-stale it takes longer than 2 s and continues in the background');
});

test('retries failed flows together with newer ones in the background', async () => {
  const { events, asked, forgetting } = scene();
  const done = forgetting.forget([flow(53)]);
  asked[0]?.end('exit code 1');
  await done;
  expect(events).toEqual(['flows-not-forgotten exit code 1', 'flows-stale 5000 exit code 1']);
  await vi.advanceTimersByTimeAsync(retries.forgetting.leastMs);
  asked[1]?.end('exit code 1');
  await vi.advanceTimersByTimeAsync(0);
  const next = forgetting.forget([flow(54)]);
  expect(asked[2]?.ports).toEqual([53, 54]);
  asked[2]?.end();
  await next;
  expect(events.at(-1)).toBe('flows-healed');
  await vi.advanceTimersByTimeAsync(retries.forgetting.mostMs);
  expect(asked).toHaveLength(3);
});
