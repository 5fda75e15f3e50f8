import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runs } from '@sluice/testing';
import { frontendElements } from './elements.ts';
import { frontendLines, type NftFrontend, readFrontend } from './frontend.ts';
import { keepSlots } from './keep-slots.ts';
import { nftLimits } from './limits.ts';
import { listChain, readListName } from './lists.ts';
import { maglevTable, slotCounts, slotShares, slotsOf } from './slots.ts';
import { type MaglevSize, maglevSizes, type NftScheduler } from './scheduler.ts';

const pods = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `10.244.${Math.floor(at / 50)}.${(at % 50) + 1} . 8080`);

const equal = (): number => 1;

const key = '10.96.0.10 . tcp . 80';
const frontend = (parts: Partial<Parameters<typeof frontendLines>[0]>): NftFrontend =>
  readFrontend(key, frontendLines({ isClusterIP: true, ranges: [], endpoints: [], local: [], ...parts }));

describe('the Maglev table', () => {
  test.each(maglevSizes)('of %d slots has all endpoints, with shares that differ by one slot', (size) => {
    const list = pods(100);
    const slots = maglevTable(list, equal, size);
    const counts = [...slotCounts({ scheduler: `maglev ${size}` }, list).values()];
    expect([slots.length, counts.length]).toEqual([size, 100]);
    expect(Math.max(...counts) - Math.min(...counts)).toBe(1);
  });

  /** Of all slots of other endpoints, the share that gets another one; and the greatest one, whichever leaves. */
  const moved = (size: MaglevSize): { readonly mean: number; readonly most: number } => {
    const list = pods(100);
    const before = maglevTable(list, equal, size);
    const shares = list.map((left) => {
      const after = maglevTable(
        list.filter((one) => one !== left),
        equal,
        size,
      );
      const others = before.filter((one) => one !== left).length;
      return before.filter((one, slot) => one !== left && after[slot] !== one).length / others;
    });
    return { mean: shares.reduce((sum, one) => sum + one, 0) / shares.length, most: Math.max(...shares) };
  };

  test.each<[MaglevSize, number, number]>([
    [251, 0.05, 0.09],
    [1009, 0.04, 0.06],
    [10_007, 0.02, 0.03],
  ])('of %d slots moves few other flows when one of 100 endpoints leaves', (size, mean, most) => {
    const found = moved(size);
    const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
    console.log(`M = ${size}: ${percent(found.mean)} of other flows move, ${percent(found.most)} at most`);
    expect(found.mean).toBeLessThanOrEqual(mean);
    expect(found.most).toBeLessThanOrEqual(most);
  });

  test('does not depend on the order of the list', () => {
    const list = pods(40);
    expect(maglevTable(list.toReversed(), equal, 251)).toEqual(maglevTable(list, equal, 251));
  });

  test('is the same on every node and in every version', () => {
    const runsOf = maglevTable(pods(3), equal, 251).map((one) => one.split(' ')[0]?.at(-1));
    expect(runsOf.slice(0, 60).join('')).toMatchInlineSnapshot(
      `"112312233133113313231232123313121132112212231223113213131323"`,
    );
  });

  test('gives endpoints slots by weight', () => {
    const list = pods(4);
    const weights = new Map(list.map((one, at) => [one, at + 1]));
    const counts = slotCounts({ scheduler: 'maglev 1009', weights }, list);
    const shares = list.map((one) => (counts.get(one) ?? 0) / 1009);
    expect(shares.every((share, at) => Math.abs(share - (at + 1) / 10) < 0.002)).toBe(true);
  });

  test('serves as many endpoints as it has slots', () => {
    const list = pods(300);
    expect(slotCounts({ scheduler: 'maglev 251' }, list).size).toBe(251);
    expect(maglevTable([], equal, 251)).toEqual([]);
  });
});

describe('slots by weight', () => {
  test.each([
    ['without common factors', [2, 4, 6], [1, 2, 3]],
    ['one each where all are equal', [7, 7], [1, 1]],
    ['as they are up to the bound', [1000, 1], [1000, 1]],
    ['the nearest numbers beyond it', [65_535, 1], [1022, 1]],
    ['none for no endpoint', [], []],
  ])('%s', (_title, weights, counts) => {
    expect(slotShares(weights)).toEqual(counts);
  });

  test('stay within the bound of a list, and each share is near its weight', () => {
    const weights = fc.array(fc.integer({ min: 1, max: nftLimits.weightMax }), { minLength: 1, maxLength: 3000 });
    fc.assert(
      fc.property(weights, (given) => {
        const counts = slotShares(given);
        const [sum, total] = [counts, given].map((some) => some.reduce((all, one) => all + one, 0)) as [number, number];
        expect(sum).toBeLessThanOrEqual(nftLimits.endpointsMax);
        expect(Math.min(...counts)).toBeGreaterThanOrEqual(1);
        for (const [at, count] of counts.entries())
          expect(Math.abs(count / sum - (given[at] as number) / total)).toBeLessThan(
            2 / Math.max(1, sum / given.length),
          );
      }),
      runs(100),
    );
  });

  test('come in turn: no endpoint has two neighbouring slots while another one waits', () => {
    const list = ['a', 'b', 'c'];
    expect(slotsOf({ weights: new Map([['a', 2]]) }, list)).toEqual(['a', 'b', 'c', 'a']);
  });

  test('without weights a list is its own slots', () => {
    const list = pods(3);
    expect(slotsOf({ scheduler: 'source-hash' }, list)).toBe(list);
  });
});

describe('chains of schedulers', () => {
  const picks = (name: string): readonly string[] => [
    ...new Set(listChain(name).flatMap((one) => /(?:numgen|jhash) .*? map /.exec(one)?.[0] ?? [])),
  ];

  test.each([
    ['i3-00112233445566ff', { scheduler: 'round-robin', owner: '00112233445566ff' }, ['numgen inc mod 3 map ']],
    [
      'ph3b',
      { scheduler: 'source-hash', isNodePort: true, isHalfB: true },
      ['jhash ip saddr mod 3 seed 0x5c4e offset 65536 map ', 'jhash ip6 saddr mod 3 seed 0x5c4e offset 65536 map '],
    ],
    [
      'ml1009',
      { scheduler: 'maglev 1009', isLocal: true, count: 1009 },
      ['ip', 'ip6'].flatMap((ip) =>
        ['tcp', 'udp', 'sctp'].map(
          (protocol) => `jhash ${ip} saddr . ${protocol} sport mod 1009 seed 0x5c4e offset 32768 map `,
        ),
      ),
    ],
  ])('%s chooses by its rules', (name, parts, expected) => {
    expect(readListName(name)).toMatchObject(parts);
    expect(picks(name)).toEqual(expected);
  });

  test.each(['m1008', 'i3', 'h3-00112233445566ff', 'h3t600', 'nl3', 'i3-xyz'])('%s is no list', (name) => {
    expect(readListName(name)).toBeUndefined();
  });

  test('each frontend in turn has a chain of its own, and others share theirs', () => {
    const verdicts = (scheduler: NftScheduler): ReadonlySet<string> =>
      new Set(
        ['10.96.0.10 . tcp . 80', '10.96.0.11 . tcp . 80'].map((one) => {
          const lines = frontendLines({ isClusterIP: true, ranges: [], endpoints: pods(3), local: [], scheduler });
          return frontendElements(readFrontend(one, lines), 'a').serving[0]?.value ?? '';
        }),
      );
    expect(verdicts('round-robin').size).toBe(2);
    expect([...verdicts('source-hash')]).toEqual(['goto h3']);
    expect([...verdicts('maglev 251')]).toEqual(['goto m251']);
  });
});

test('a frontend with a scheduler and weights reads back from its lines', () => {
  const list = pods(3);
  const weights = new Map([
    [list[0] ?? '', 3],
    [list[2] ?? '', 2],
  ]);
  const one = frontend({ scheduler: 'maglev 251', endpoints: list, local: list.slice(2), weights });
  expect(one).toMatchObject({ scheduler: 'maglev 251', endpoints: list, weights });
});

test('an endpoint that takes the place of another one changes only the slots of the two, and few more', () => {
  const list = pods(20);
  const state = (endpoints: readonly string[], scheduler?: NftScheduler) => ({
    settings: [],
    frontends: new Map([
      [
        key,
        frontendLines({ isClusterIP: true, ranges: [], endpoints, local: [], ...(scheduler ? { scheduler } : {}) }),
      ],
    ]),
  });
  const changed = (scheduler?: NftScheduler): number => {
    const active = state(list, scheduler);
    const updated = keepSlots(state(['10.244.9.9 . 8080', ...list.slice(1)], scheduler), active);
    const [before, after] = [active, updated].map(({ frontends }) => {
      const { lists } = frontendElements(readFrontend(key, frontends.get(key) ?? []), 'a');
      return new Map(lists.map((element) => [element.key, element.value]));
    }) as [Map<string, string>, Map<string, string>];
    return [...before].filter(([slot, value]) => after.get(slot) !== value).length;
  };
  expect([changed(), changed('round-robin'), changed('source-hash')]).toEqual([1, 1, 1]);
  expect(changed('maglev 1009')).toBeLessThan(1009 * 0.13);
});
