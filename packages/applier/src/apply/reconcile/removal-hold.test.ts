import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, type SampleServices } from '../../testing/bundle.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';
import { planeOf, type Problem } from '@sluice/netfilter';
import { KernelError } from '../../ports/failure.ts';
import type { Generation } from '../../ports/journal.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { DiskJournal } from '../../state/journal.ts';
import type { Offers } from '../transaction/offers.ts';
import type { RemovalRules } from './removal-hold.ts';

const rules: RemovalRules = { share: 0.5, least: 10, holdMs: 600_000 };
const problemOf = (outcome: Outcome): Problem | undefined =>
  outcome.kind === 'refused' ? outcome.refusal.problems[0] : undefined;

const planes = [
  { layout: 'flat', mode: 'iptables' },
  { layout: 'tree', mode: 'iptables' },
  { layout: 'tree', mode: 'ipvs' },
  { layout: 'tree', mode: 'nftables' },
] as const;

describe.each(planes)('layout $layout, mode $mode', ({ layout, mode }) => {
  let node: Scene;
  let nowMs: number;
  const clock = { now: () => nowMs, bootMs: () => nowMs, sleep: async () => undefined };
  const start = (changed: Partial<RemovalRules> = {}) => node.start({ removals: { ...rules, ...changed } }, { clock });

  beforeEach(() => {
    node = scene();
    node.layout = layout;
    nowMs = 0;
  });
  afterEach(() => node.end());

  /** Twenty Services, each with one endpoint of its own; `change` gives some of them others, or takes them away. */
  const cluster = (
    change: (number: number) => readonly number[] | undefined = (number) => [number],
    more: SampleServices = {},
  ) => {
    const services = Array.from({ length: 20 }, (_, index) => [`shop/s${index}`, change(index + 1)] as const);
    return sampleBundle({ services: { ...Object.fromEntries(services), ...more }, mode, families: ['ipv4', 'ipv6'] });
  };
  const all = cluster();
  const few = cluster((index) => (index < 5 ? [index] : undefined));
  const emptied = cluster((index) => (index < 5 ? [index] : []));
  /** The addresses of endpoints in the active generation. */
  const served = (journal: DiskJournal): readonly string[] => {
    const { state } = journal.active as Generation;
    return [...planeOf(state).read(state).addresses()].filter((one) => one.startsWith('10.')).toSorted();
  };

  test('holds a release that takes away most Services, and keeps the rules', async () => {
    const { reconciler, journal } = await start();
    await reconciler.put(all, false);
    const [before, steps] = [journal.active, node.kernel.taken.length];
    const outcome = await reconciler.put(few, false);
    expect(problemOf(outcome)).toMatchObject({
      code: 'REMOVAL_HELD',
      message: expect.stringContaining(
        'it takes away 16 of 20 Service addresses, with 16 of 20 endpoints; held until 1970-01-01T00:10:00Z',
      ),
      hint: expect.stringContaining('--accept-removal'),
    });
    expect([journal.active, node.kernel.taken.length]).toEqual([before, steps]);
  });

  test('takes the list that is back at once, and counts again afterwards', async () => {
    const { reconciler } = await start();
    await reconciler.put(all, false);
    await reconciler.put(few, false);
    nowMs = 599_000;
    expect((await reconciler.put(all, false)).kind).toBe('same');
    nowMs = 601_000;
    expect(problemOf(await reconciler.put(few, false))?.message).toContain('until 1970-01-01T00:20:01Z');
  });

  test('takes the removal once it has stood', async () => {
    const { reconciler, journal } = await start();
    await reconciler.put(all, false);
    await reconciler.put(few, false);
    nowMs = 599_999;
    expect(
      problemOf(
        await reconciler.put(
          cluster((index) => (index < 4 ? [index] : undefined)),
          false,
        ),
      )?.code,
    ).toBe('REMOVAL_HELD');
    nowMs = 600_000;
    expect((await reconciler.put(few, false)).kind).toBe('confirmed');
    expect(served(journal)).toHaveLength(4);
  });

  test('holds the next removal as long, behind one that has stood', async () => {
    const { reconciler } = await start({ least: 4 });
    const first = (count: number) => cluster((index) => (index <= count ? [index] : undefined));
    await reconciler.put(all, false);
    await reconciler.put(first(8), false);
    nowMs = 600_000;
    expect((await reconciler.put(first(8), false)).kind).toBe('confirmed');
    expect(problemOf(await reconciler.put(first(2), false))?.code).toBe('REMOVAL_HELD');
  });

  test('begins again with another process', async () => {
    const { reconciler } = await start();
    await reconciler.put(all, false);
    await reconciler.put(few, false);
    nowMs = 600_000;
    const next = await start();
    expect(problemOf(await next.reconciler.put(few, false))?.code).toBe('REMOVAL_HELD');
  });

  test.each([
    ['a release says so', { said: { acceptsRemoval: true } }],
    ['an operator applies it', { byHand: true }],
  ])('takes it at once if %s', async (_title, { said = {}, byHand = false }: Said) => {
    const { reconciler } = await start();
    await reconciler.put(all, false);
    expect(problemOf(await reconciler.put(few, false))?.code).toBe('REMOVAL_HELD');
    expect((await reconciler.put(few, byHand, undefined, false, said)).kind).toBe('confirmed');
  });

  test.each([
    ['holds are switched off', { holdMs: 0 }],
    ['the share is 1', { share: 1 }],
    ['it takes away fewer than the least number', { least: 17 }],
  ])('takes it at once if %s', async (_title, changed) => {
    const { reconciler } = await start(changed);
    await reconciler.put(all, false);
    expect((await reconciler.put(few, false)).kind).toBe('confirmed');
  });

  test('takes the first release, and the one after generation 0', async () => {
    const { reconciler, journal } = await start();
    expect((await reconciler.put(all, false)).kind).toBe('confirmed');
    const before = await journal.generation(0);
    expect(before && (await reconciler.rollBackTo(before)).kind).toBe('confirmed');
    expect((await reconciler.put(few, false)).kind).toBe('confirmed');
  });

  test('holds Services that lose their endpoints, and serves the others by the newest ones meanwhile', async () => {
    const { reconciler, journal } = await start();
    await reconciler.put(all, false);
    const newest = cluster((index) => (index < 4 ? [index, index + 100] : index === 4 ? [4] : []));
    expect(problemOf(await reconciler.put(newest, false))?.code).toBe('REMOVAL_HELD');
    expect(served(journal), 'all, and three new ones').toHaveLength(23);
    nowMs = 600_000;
    expect((await reconciler.put(newest, false)).kind).toBe('confirmed');
    expect((await reconciler.put(newest, false)).kind).toBe('same');
  });

  test('takes everything but the removal meanwhile: new Services, and what Services that stay change', async () => {
    const { reconciler, journal } = await start();
    await reconciler.put(all, false);
    const with2 = cluster((index) => (index < 4 ? [index, index + 100] : undefined), { 'shop/new': [90] });
    expect(problemOf(await reconciler.put(with2, false))?.code).toBe('REMOVAL_HELD');
    expect(served(journal), 'all, three more endpoints, and a new Service').toHaveLength(24);
    const [number, steps] = [journal.active?.number, node.kernel.taken.length];
    expect(problemOf(await reconciler.put(with2, false))?.code, 'at the next scan').toBe('REMOVAL_HELD');
    expect([journal.active?.number, node.kernel.taken.length]).toEqual([number, steps]);
    nowMs = 300_000;
    const without = cluster((index) => (index < 4 ? [index, index + 100] : undefined), {
      'shop/new': undefined,
      'shop/other': [91],
    });
    const held = problemOf(await reconciler.put(without, false));
    expect(held?.message, 'the time goes on').toContain('until 1970-01-01T00:10:00Z');
    expect(served(journal)).toHaveLength(25);
    nowMs = 600_000;
    expect((await reconciler.put(without, false)).kind).toBe('confirmed');
    expect(served(journal)).toHaveLength(7);
  });

  test('keeps no Service whose address another one has now', async () => {
    const { reconciler, journal } = await start();
    await reconciler.put(all, false);
    const again = sampleBundle({
      services: { 'shop/s0': [1], 'shop/s1': [2], 'shop/s2': [3], 'shop/new': [90] },
      mode,
      families: ['ipv4', 'ipv6'],
    });
    expect(problemOf(await reconciler.put(again, false))?.code).toBe('REMOVAL_HELD');
    expect(served(journal), 'the fourth of twenty gave its address away').toHaveLength(20);
    expect(served(journal).some((one) => one.startsWith('10.244.0.91'))).toBe(true);
  });

  test('a signed release goes in as a whole or not at all', async () => {
    const { reconciler, journal } = await start();
    await reconciler.put(all, false);
    const release = cluster((index) => (index < 4 ? [index] : undefined), { 'shop/new': [90] });
    expect(problemOf(await reconciler.put(release, false, undefined, false, { release: {} }))?.code).toBe(
      'REMOVAL_HELD',
    );
    expect(served(journal)).toHaveLength(20);
  });

  test('tells of the rest that it fails, and then of both', async () => {
    const { reconciler, journal } = await start();
    await reconciler.put(all, false);
    const apply = node.kernel.apply.bind(node.kernel);
    node.kernel.apply = async (step) => {
      if (JSON.stringify(step).includes('10.244.0.90')) throw new KernelError('nft', 'no such map', 'refused');
      return apply(step);
    };
    const bad = cluster((index) => (index < 4 ? [index] : undefined), { 'shop/new': [89] });
    expect((await reconciler.put(bad, false)).kind).toBe('rolled-back');
    expect(served(journal)).toHaveLength(20);
    const outcome = await reconciler.put(bad, false);
    expect(outcome.kind === 'refused' && outcome.refusal.problems.map(({ code }) => code)).toEqual([
      'BUNDLE_QUARANTINED',
      'REMOVAL_HELD',
    ]);
  });

  test('also when a new process knows no files of Services', async () => {
    await (await start()).reconciler.put(all, false);
    const { reconciler, journal } = await start();
    expect(problemOf(await reconciler.put(emptied, false))?.code).toBe('REMOVAL_HELD');
    expect(served(journal)).toHaveLength(20);
  });

  test('takes a large loss that leaves each Service an endpoint', async () => {
    const { reconciler } = await start();
    await reconciler.put(
      cluster((index) => [1, 2, 3, 4].map((n) => n * 20 + index)),
      false,
    );
    expect(
      (
        await reconciler.put(
          cluster((index) => [20 + index]),
          false,
        )
      ).kind,
    ).toBe('confirmed');
  });

  test('takes nothing away during probation', async () => {
    let isThere = true;
    const offers: Offers = {
      arrival: () => (isThere ? Promise.resolve() : new Promise(() => undefined)),
      look: async () => {
        isThere = false;
        return { files: emptied, onlyEndpoints: false };
      },
    };
    const probation = { seconds: 3, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;
    const { reconciler, journal } = await node.start({ removals: rules, probation }, { clock: steppingClock() });
    await reconciler.put(all, false);
    const release = cluster(undefined, { 'shop/new': [90] });
    expect((await reconciler.put(release, false, offers)).kind).toBe('confirmed');
    expect(isThere).toBe(false);
    expect(served(journal)).toHaveLength(21);
  });
});

interface Said {
  readonly said?: { readonly acceptsRemoval?: boolean };
  readonly byHand?: boolean;
}
