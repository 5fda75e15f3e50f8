import type { BundleFiles } from '@sluice/bundle';
import { afterEach, describe, expect, test } from 'vitest';
import { withAffinity } from '../testing/affinity.fixture.ts';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { type Scene, scene } from '../testing/scene.fixture.ts';
import type { Offers } from './offers.ts';

let node: Scene = scene();
afterEach(() => node.end());

/** A clock that goes on with every sleep, so that a trial lasts some rounds. */
function clock() {
  let now = 0;
  const sleep = async (ms: number): Promise<void> => {
    now += ms;
    for (let turn = 0; turn < 100; turn++) await Promise.resolve();
  };
  return { now: () => now, bootMs: () => now, sleep };
}
const probation = { seconds: 20, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;

type Services = Readonly<Record<string, readonly number[]>>;
const old: Services = { 'shop/web': [1, 2], 'shop/cart': [3, 4] };
const release: Services = { ...old, 'shop/new': [6] };
const bundle = (services: Services, seconds: number): BundleFiles =>
  withAffinity(sampleBundle({ services, families: ['ipv4', 'ipv6'] }), 'shop/web', seconds);

/** The times that the kernel keeps clients for, each once: of all rules, met or not. */
const seconds = (): readonly number[] =>
  [
    ...new Set(
      ['ipv4', 'ipv6'].flatMap((family) =>
        [...node.kernel.save(family as 'ipv4').matchAll(/ --seconds (\d+)/g)].map(([, one]) => Number(one)),
      ),
    ),
  ].toSorted((a, b) => a - b);

/** What comes during a trial: one bundle. */
function arriving(files: BundleFiles): Offers {
  const left = [files];
  return {
    arrival: () => (left.length > 0 ? Promise.resolve() : new Promise(() => undefined)),
    look: async () => left.shift(),
  };
}

describe.each(['flat', 'tree'] as const)('a shorter session affinity in layout %s', (layout) => {
  const start = async () => {
    node = scene();
    node.layout = layout;
    const first = await node.start({}, { clock: clock() });
    await first.keeper.put(bundle(old, 600), false);
    const next = await node.start({ probation }, { clock: clock() });
    const seen = new Set<number>();
    node.health = () => {
      for (const one of seconds()) seen.add(one);
      return true;
    };
    return { ...next, seen };
  };

  test.each([
    ['with a Service more', release],
    ['and nothing else', old],
  ] as const)(
    '%s: is tried with the time that stands, and comes with the end of the trial',
    async (_what, services) => {
      const { keeper, journal, seen } = await start();
      const shorter = bundle(services, 60);
      expect(await keeper.put(shorter, false)).toMatchObject({ kind: 'confirmed', generation: { number: 2 } });
      expect([...seen], 'while it is on trial').toEqual([600]);
      expect(seconds()).toEqual([60]);
      expect(journal.record.history.map(({ what }) => what).slice(-2)).toEqual(['confirmed', 'updated']);
      expect(await keeper.settle()).toBe(0);
      expect((await keeper.put(shorter, false)).kind).toBe('same');
      expect((await keeper.put(bundle(services, 7200), false)).kind).toBe('confirmed');
      expect(seconds()).toEqual([7200]);
    },
  );

  test('never was in the kernel when the release is taken back', async () => {
    const { keeper, seen } = await start();
    let asked = 0;
    const passes = node.health;
    node.health = () => passes() && asked++ < 3;
    expect((await keeper.put(bundle(release, 60), false)).kind).toBe('rolled-back');
    expect([...seen, ...seconds()].filter((one) => one !== 600)).toEqual([]);
    expect((await keeper.put(bundle(release, 60), false)).kind).toBe('refused');
  });

  test('waits for the end of a trial to which newer endpoints came, and these are not late', async () => {
    const { keeper, seen } = await start();
    const newer = bundle({ ...release, 'shop/cart': [3, 4, 9] }, 60);
    const outcome = await keeper.put(bundle(release, 60), false, arriving(newer));
    expect(outcome).toMatchObject({ kind: 'confirmed', generation: { number: 2, revision: 1 } });
    expect(node.kernel.save('ipv4').includes('10.244.0.10:8080')).toBe(true);
    expect([...seen, ...seconds()].filter((one) => one !== 600)).toEqual([]);
    expect(await keeper.put(newer, false)).toMatchObject({ kind: 'confirmed', generation: { number: 2, revision: 2 } });
    expect(seconds()).toEqual([60]);
    expect((await keeper.put(newer, false)).kind).toBe('same');
  });

  test('that the process did not come to goes in with the next look, without a second trial', async () => {
    const { keeper, journal } = await start();
    const shorter = bundle(release, 60);
    let rounds = 0;
    node.health = () => (rounds++, true);
    const apply = node.kernel.apply.bind(node.kernel);
    node.kernel.apply = async (step) => {
      if (journal.standing?.number === 2 && journal.open?.lane === 'endpoints') throw new Error('the process ends');
      return apply(step);
    };
    expect((await keeper.put(shorter, false)).kind).toBe('confirmed');
    expect(seconds()).toEqual([600]);
    node.kernel.apply = apply;
    const again = await node.start({ probation }, { clock: clock() });
    rounds = 0;
    expect(await again.keeper.put(shorter, false)).toMatchObject({ kind: 'confirmed', generation: { number: 2 } });
    expect(seconds()).toEqual([60]);
    expect(rounds).toBe(0);
  });

  test('is more than keys for endpoints may bring', async () => {
    const { keeper } = await start();
    const outcome = await keeper.put(bundle(old, 60), false, undefined, true);
    expect(outcome).toMatchObject({ kind: 'refused', refusal: { problems: [{ code: 'RELEASE_ENDPOINTS_ONLY' }] } });
    expect(seconds()).toEqual([600]);
  });
});
