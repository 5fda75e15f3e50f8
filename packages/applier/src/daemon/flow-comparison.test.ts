import { expect, test } from 'vitest';
import { paces } from '../limits.ts';
import { flowComparison } from './daemon.ts';

/** A comparison on a clock that the test sets. */
function comparison(reconcileFlows: () => Promise<number>) {
  const clock = { nowMs: 0, usedMs: 0 };
  const logged: string[] = [];
  const warn = (_fields: object, text: string): void => void logged.push(text);
  const parts = {
    reconciler: { reconcileFlows },
    log: { warn },
    monotonicMs: () => clock.nowMs,
    processorMs: () => clock.usedMs,
  };
  return { clock, logged, flows: flowComparison(parts) };
}

test('compares once an interval, and rests longer the more processor time that takes', async () => {
  const comparedMs: number[] = [];
  const { clock, flows } = comparison(async () => {
    comparedMs.push(clock.nowMs);
    clock.usedMs += comparedMs.length === 1 ? 1 : 500;
    return 0;
  });
  for (; clock.nowMs <= 300_000; clock.nowMs += 1_000) await flows();
  expect(comparedMs).toEqual([
    paces.flows.leastMs,
    2 * paces.flows.leastMs,
    2 * paces.flows.leastMs + 500 * paces.flows.factor,
  ]);
});

test('logs deleted entries, and a failure once until it is over', async () => {
  const results = [
    () => Promise.resolve(0),
    () => Promise.resolve(2),
    () => Promise.reject(new Error('conntrack: it is not installed')),
    () => Promise.reject(new Error('conntrack: it is not installed')),
    () => Promise.resolve(1),
  ];
  const { clock, logged, flows } = comparison(() => results.shift()?.() ?? Promise.resolve(0));
  for (; results.length > 0; clock.nowMs += paces.flows.leastMs) await flows();
  expect(logged).toEqual([
    expect.stringContaining('deleted conntrack entries'),
    expect.stringContaining('cannot compare conntrack entries'),
    expect.stringContaining('deleted conntrack entries'),
  ]);
});
