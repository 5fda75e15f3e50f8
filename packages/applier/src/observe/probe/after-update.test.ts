import { expect, test } from 'vitest';
import type { ProbeResult } from '../../ports/probes.ts';
import { AfterUpdate } from './after-update.ts';

/** Probes that pass or fail as a test says, and a clock whose sleeps end when it says. */
function scene(names: readonly string[]) {
  const failing = new Set<string>();
  const rules: { unknown: string | undefined; asked: number } = { unknown: undefined, asked: 0 };
  const alarms: (string | undefined)[] = [];
  let nowMs = 0;
  let glances = 0;
  let rounds = 0;
  let wake = (): void => undefined;
  const answers = async (): Promise<readonly ProbeResult[]> =>
    names.map((name) => ({ name, healthy: !failing.has(name), seen: failing.has(name) ? 'status 500' : 'status 200' }));
  const watch = new AfterUpdate({
    probes: {
      policies: names.map((name) => ({ name, window: 1, failures: 1 })),
      intervalMs: 1_000,
      glance: async () => (glances++, answers()),
      untilVerdict: async () => (rounds++, answers()),
    },
    clock: { bootMs: () => nowMs, sleep: () => new Promise<void>((resolve) => (wake = resolve)) },
    unknownRules: async () => (rules.asked++, rules.unknown),
    alarm: (why) => void alarms.push(why),
  });
  const settled = async (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  return {
    watch,
    failing,
    rules,
    alarms,
    counts: () => ({ glances, rounds }),
    settled,
    pass: async (ms: number) => {
      nowMs += ms;
      wake();
      await settled();
    },
  };
}

test('raises an alarm that names Services and endpoints while a probe fails that passed before an update', async () => {
  const { watch, failing, alarms, settled, pass } = scene(['web', 'dns']);
  const good = await watch.before();
  failing.add('web');
  let reported = 0;
  watch.after(good, () => (reported++, 'shop/web (10.244.0.9:8080 added)'));
  await settled();
  expect(alarms).toEqual(['web (status 500) fails since an endpoint update: shop/web (10.244.0.9:8080 added)']);
  watch.after(await watch.before(), () => 'shop/cart (10.244.0.7:8080 added)');
  await pass(1_000);
  expect(alarms.at(-1), 'the first update since is the suspect').toContain('shop/web');
  expect(reported, 'what changed is held as a text from then on').toBe(1);
  failing.delete('web');
  await pass(1_000);
  expect(alarms.at(-1)).toBeUndefined();
});

test('is silent about a probe that failed before the update, and where there are no probes', async () => {
  const one = scene(['web']);
  one.failing.add('web');
  one.watch.after(await one.watch.before(), () => 'shop/web');
  await one.settled();
  const none = scene([]);
  none.watch.after(await none.watch.before(), () => 'shop/web');
  await none.settled();
  expect([one.alarms, none.alarms, none.counts()]).toEqual([[], [], { glances: 0, rounds: 0 }]);
});

test('names no update for a probe that fails because another program has removed the rules, before or after it', async () => {
  const { watch, failing, rules, alarms, settled, pass } = scene(['web']);
  const good = await watch.before();
  [rules.unknown] = ['ipv4 nat chain SLUICE-SERVICES'];
  failing.add('web');
  watch.after(good, () => 'shop/web (10.244.0.9:8080 added)');
  await settled();
  await pass(1_000);
  expect(alarms, 'as long as it is not known').toEqual([]);
  rules.unknown = undefined;
  failing.clear();
  await pass(1_000);
  expect(alarms, 'on the repaired rules it passes').toEqual([]);
});

test('names the update that broke a probe also where it failed before on rules that another program had removed', async () => {
  const { watch, failing, rules, alarms, settled, pass } = scene(['web']);
  rules.unknown = 'table inet sluice';
  failing.add('web');
  const good = await watch.before();
  expect(good).toEqual(['web']);
  rules.unknown = undefined;
  watch.after(good, () => 'shop/web (10.244.0.9:8080 added)');
  await settled();
  expect(alarms).toEqual(['web (status 500) fails since an endpoint update: shop/web (10.244.0.9:8080 added)']);
  const { asked } = rules;
  for (let round = 0; round < 5; round++) await pass(1_000);
  expect(rules.asked, 'asked once for a probe that goes on failing').toBe(asked);
});

test('probes once per interval, however many updates there are', async () => {
  const { watch, counts, settled, pass } = scene(['web']);
  for (let update = 0; update < 50; update++) watch.after(await watch.before(), () => 'shop/web');
  await settled();
  expect(counts()).toEqual({ glances: 1, rounds: 1 });
  await pass(1_000);
  watch.after(await watch.before(), () => 'shop/web');
  await pass(1_000);
  expect(counts().rounds, 'at 0, 1 and 2 s').toBe(3);
});
