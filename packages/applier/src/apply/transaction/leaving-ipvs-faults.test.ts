// @module-tag test
import { afterEach, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import type { Journal } from '../../ports/journal.ts';
import type { Kernel } from '../../ports/kernel.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import {
  Countdown,
  type CrashMoment,
  failingKernel,
  mortalJournal,
  mortalKernel,
} from '../../testing/faults.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';

/** A node leaves mode ipvs, and a step fails or the process ends at a call: it ends wholly in the one mode or in the other. */

let node: Scene | undefined;
afterEach(() => node?.end());

const sysctls = { 'net.ipv4.vs.conntrack': 1, 'net.ipv4.conf.all.arp_ignore': 1, 'net.ipv4.conf.all.arp_announce': 2 };
const keys = Object.keys(sysctls) as (keyof typeof sysctls)[];
const sysctlConf = Object.entries(sysctls)
  .map(([key, value]) => `${key} = ${value}\n`)
  .join('');
const inIpvs = new Map([...ipvsBundle, ['profiles/default/base/sysctl.conf', sysctlConf]]);

/** Ports with a fault, and how many calls or steps they have taken. */
type Fault = (
  kernel: Kernel,
  journal: Journal,
) => { readonly kernel: Kernel; readonly journal: Journal; readonly calls: () => number };

/** All that mode ipvs has in the kernel, without the values of its parts. */
async function left({ kernel }: Scene): Promise<unknown> {
  const { servers, sets, bound } = await kernel.ipvs.observe();
  const values = await Promise.all(keys.map((key) => kernel.readSysctl(key)));
  const hasFilter = kernel.save('ipv4').includes('KUBE-IPVS-FILTER');
  return { servers: servers.size, sets: sets.size, addresses: bound?.ipv4.size ?? 0, values, hasFilter };
}

/** One change with a fault. @returns what is wrong afterwards, and whether the fault was met */
async function run(layout: Scene['layout'], mode: 'iptables' | 'nftables', fault: Fault, at: number) {
  const self = (node = scene());
  self.layout = layout;
  await (await self.start()).reconciler.put(inIpvs, true);
  const before = await left(self);
  const faulty = fault(self.kernel, (await self.start()).journal);
  const { kernel, journal } = faulty;
  const { reconciler } = await self.start({}, { kernel, journal, clock: steppingClock() });
  const ending = await reconciler.put(sampleBundle({ families: ['ipv4'], mode }), true).catch(() => undefined);
  const calls = faulty.calls();
  const next = await self.start({}, { clock: steppingClock() });
  await next.reconciler.recover();
  await next.reconciler.repair();
  const isOld = next.journal.active?.state.ipvs !== undefined;
  const after = await left(self);
  const gone = { servers: 0, sets: 0, addresses: 0, values: keys.map(() => 0), hasFilter: false };
  const expected = isOld ? before : gone;
  const differs = JSON.stringify(after) === JSON.stringify(expected) ? [] : [JSON.stringify(after)];
  const open = next.journal.open || next.journal.halted !== undefined ? ['open or halted'] : [];
  self.end();
  const wrong = [...differs, ...open].map((one) => `${at}, ${ending?.kind ?? 'crashed'}: ${one}`);
  return { calls, isOld, wrong };
}

/** The process ends at a call. */
const crash =
  (at: number, moment: CrashMoment): Fault =>
  (kernel, journal) => {
    const countdown = new Countdown(at, moment);
    return {
      kernel: mortalKernel(kernel, countdown),
      journal: mortalJournal(journal, countdown),
      calls: () => countdown.calls,
    };
  };

/** A step fails, once. */
const failure =
  (at: number): Fault =>
  (kernel, journal) => {
    let steps = 0;
    const fails = (index: number): boolean => {
      steps = index + 1;
      return index === at;
    };
    return { kernel: failingKernel(kernel, { fails, lies: false }), journal, calls: () => steps };
  };

const ways = [
  ['flat', 'iptables'],
  ['tree', 'iptables'],
  ['tree', 'nftables'],
] as const;

test.each(ways)('in layout %s to mode %s, with a crash at each call', { timeout: 60_000 }, async (layout, mode) => {
  const found: string[] = [];
  const endings = new Set<boolean>();
  for (const moment of ['before', 'after'] as const) {
    for (let at = 0; ; at++) {
      const { calls, isOld, wrong } = await run(layout, mode, crash(at, moment), at);
      for (const one of wrong) found.push(`${moment} call ${one}`);
      if (calls <= at) break;
      endings.add(isOld);
    }
  }
  expect(found).toEqual([]);
  expect(endings.size).toBe(2);
});

test.each(ways)('in layout %s to mode %s, with a failure of each step', { timeout: 60_000 }, async (layout, mode) => {
  const found: string[] = [];
  const endings = new Set<boolean>();
  for (let at = 0; ; at++) {
    const { calls, isOld, wrong } = await run(layout, mode, failure(at), at);
    for (const one of wrong) found.push(`step ${one}`);
    if (calls <= at) break;
    endings.add(isOld);
  }
  expect(found).toEqual([]);
  expect(endings.size).toBe(2);
});
