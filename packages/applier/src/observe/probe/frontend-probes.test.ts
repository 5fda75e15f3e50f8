// @module-tag quick
import { expect, test } from 'vitest';
import type { ProbeConfig } from '../../config.ts';
import { limits } from '../../limits.ts';
import { FrontendProbes } from './frontend-probes.ts';

const times = { attempts: 3, intervalSeconds: 1, timeoutSeconds: 1 };
const probes: readonly ProbeConfig[] = [
  { ...times, name: 'web', http: 'http://203.0.113.9/healthz' },
  { ...times, name: 'web6', tcp: '[2001:db8::9]:443' },
  { ...times, name: 'elsewhere', http: 'http://web.example/' },
  { ...times, name: 'command', exec: ['/bin/true'] },
];

/** Probes whose verdicts and clock are set by the test. */
function make() {
  const state = { nowMs: 0, passes: true, tries: 0 };
  let wake: () => void = () => undefined;
  const clock = { bootMs: () => state.nowMs, sleep: () => new Promise<void>((resolve) => (wake = resolve)) };
  const judge = async (): Promise<boolean> => {
    state.tries += 1;
    return state.passes;
  };
  const tick = async (ms: number): Promise<void> => {
    state.nowMs += ms;
    wake();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { state, tick, all: new FrontendProbes(probes, clock, judge) };
}

test('knows the probes that ask an address, with and without a port', async () => {
  const { all, tick } = make();
  const at = (address: string, port?: number): boolean | undefined => all.passes({ address, port });
  expect([at('203.0.113.9', 81), at('203.0.113.8'), at('2001:db8::9', 80)]).toEqual([true, true, true]);
  expect([at('203.0.113.9', 80), at('203.0.113.9'), at('2001:db8::9', 443)]).toEqual([undefined, undefined, undefined]);
  await tick(0);
  expect([at('203.0.113.9', 80), at('203.0.113.9'), at('2001:db8::9', 443)]).toEqual([true, true, true]);
});

test('tries a probe for as long as it is asked about', async () => {
  const { all, state, tick } = make();
  const ask = (): boolean | undefined => all.passes({ address: '203.0.113.9', port: 80 });
  ask();
  await tick(0);
  state.passes = false;
  await tick(1_000);
  expect(ask()).toBe(false);
  state.passes = true;
  await tick(1_000);
  expect(ask()).toBe(true);
  const { tries } = state;
  await tick(limits.vip.askedMs);
  await tick(1_000);
  expect(state.tries).toBe(tries);
  expect(ask(), 'an old verdict is none').toBeUndefined();
});
