import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MadeWave, makeWaves, readWaveSpecs, type WaveNode } from './wave-specs.ts';

const head = 'apiVersion: sluice.dev/v1alpha1\nkind: Waves\n';
const node = (name: string, zone?: string, labels: Readonly<Record<string, string>> = {}): WaveNode => ({
  name,
  zone,
  labels: new Map(Object.entries(labels)),
});
const names = ['1e3', 'node-a', 'node-b', 'node-c'].map((name) => node(name));
const wish = (waves: string, nodes: readonly WaveNode[] = names, cluster = 'shop') => {
  const specs = readWaveSpecs('waves.yaml', `${head}waves: ${waves}\n`);
  return 'code' in specs ? specs : makeWaves('waves.yaml', specs, cluster, nodes);
};
const made = (...of: Parameters<typeof wish>): readonly MadeWave[] => {
  const waves = wish(...of);
  if ('code' in waves) throw new Error(waves.message);
  return waves;
};
/** Twelve nodes, six in zone a, four in zone b, two in none; every third has pool=edge. */
const fleet = Array.from({ length: 12 }, (_, at) =>
  node(`node-${at}`, at < 6 ? 'a' : at < 10 ? 'b' : undefined, at % 3 === 0 ? { pool: 'edge' } : {}),
);
const zoneOf = (name: string) => fleet.find((one) => one.name === name)?.zone ?? 'none';
const inZones = ({ nodes }: MadeWave) =>
  ['a', 'b', 'none'].map((zone) => nodes.filter((name) => zoneOf(name) === zone).length);

describe('waves of lists', () => {
  test('the rest are the nodes that no other wave has, for any order', () => {
    expect(wish('[{name: canary, nodes: [node-b]}, {name: all, nodes: rest}]')).toEqual([
      { name: 'canary', nodes: ['node-b'], chosenBy: 'listed' },
      { name: 'all', nodes: ['1e3', 'node-a', 'node-c'], chosenBy: 'the rest' },
    ]);
  });

  test.each([
    ['no wave', '[]', 'waves is'],
    ['an unknown node', '[{name: a, nodes: [node-x]}, {name: b, nodes: rest}]', 'no node node-x'],
    ['a node that no wave has', '[{name: a, nodes: [node-a]}]', 'node 1e3 is in no wave'],
    [
      'a node in two waves',
      '[{name: a, nodes: [node-a]}, {name: b, nodes: [node-a]}]',
      'node node-a is in wave a and b',
    ],
    ['a node twice in parts', '[{name: a, nodes: [node-a, node-a], maxUnavailable: 1}]', 'twice in one'],
    ['two rests', '[{name: a, nodes: rest}, {name: b, nodes: rest}]', 'two waves have `nodes: rest`'],
    ['two waves of one name', '[{name: a, nodes: [node-a]}, {name: a, nodes: rest}]', 'two waves are called a'],
    [
      'nothing left for the rest',
      '[{name: a, nodes: ["1e3", node-a, node-b, node-c]}, {name: b, nodes: rest}]',
      'wave b has no node',
    ],
    ['a name with a line end', '[{name: "a\\nb", nodes: rest}]', 'waves is'],
    ['a key that is not known', '[{name: a, nodes: rest, run: x}]', 'waves is'],
    ['nothing that chooses nodes', '[{name: a}]', 'waves is'],
    ['only a bound', '[{name: a, maxUnavailable: 1}]', 'waves is'],
    ['a list and a share', '[{name: a, nodes: rest, percent: 10}]', 'waves is'],
    ['a share and a number', '[{name: a, percent: 10, count: 1}]', 'waves is'],
    ['no share at all', '[{name: a, percent: 0}]', 'waves is'],
    ['more than all', '[{name: a, percent: 101}]', 'waves is'],
    ['a label that is a number', '[{name: a, label: {rank: 1}}]', 'waves is'],
    ['a bound without a unit of its own', '[{name: a, nodes: rest, maxUnavailable: "10"}]', 'waves is'],
    ['a bound of nothing', '[{name: a, nodes: rest, maxUnavailable: 0}]', 'waves is'],
    ['a zone without nodes', '[{name: a, zone: x}, {name: b, nodes: rest}]', 'wave a has no node'],
    [
      'the name of a part',
      '[{name: a-2, nodes: [node-a]}, {name: a, nodes: rest, maxUnavailable: 2}]',
      'two waves are called a-2',
    ],
    ['a name too long for parts', `[{name: ${'a'.repeat(62)}, nodes: rest, maxUnavailable: 2}]`, '63 characters'],
  ])('with %s are refused', (_title, text, expected) => {
    expect(wish(text)).toMatchObject({ code: 'WAVES_INVALID', message: expect.stringContaining(expected) });
  });

  test('in more parts than a release may have waves are refused, with how many there would be', () => {
    const many = Array.from({ length: 65 }, (_, at) => node(`node-${at}`, 'a'));
    expect(wish('[{name: all, nodes: rest, maxUnavailable: 1}]', many)).toMatchObject({
      message: expect.stringContaining('they are 65, and a release has at most 64'),
    });
    expect(made('[{name: all, nodes: rest, maxUnavailable: 2}]', many)).toHaveLength(33);
  });
});

describe('waves by selector', () => {
  test('take nodes by label and zone, a share of them or a number', () => {
    const waves = made(
      '[{name: edge, label: {pool: edge}, zone: a}, {name: some, percent: 25}, {name: b, count: 2, zone: [b]}, {name: all, nodes: rest}]',
      fleet,
    );
    expect(waves[0]).toMatchObject({ nodes: ['node-0', 'node-3'], chosenBy: 'label pool=edge, zone a' });
    expect(waves[1]).toMatchObject({ chosenBy: '25 % of all nodes' });
    expect(waves[1]?.nodes).toHaveLength(3);
    expect(waves[2]).toMatchObject({ chosenBy: '2 of zone b' });
    expect(waves[2]?.nodes.map(zoneOf)).toEqual(['b', 'b']);
    expect(waves[3]?.nodes).toHaveLength(5);
  });

  test('a share is of all nodes that fit, rounded up; what lists have is not taken twice', () => {
    const waves = made(
      '[{name: tenth, percent: 10, zone: a}, {name: b, zone: [a, b]}, {name: all, nodes: rest}]',
      fleet,
    );
    expect(waves.map(({ nodes }) => nodes.length)).toEqual([1, 9, 2]);
    const [canary] = made('[{name: tenth, percent: 10}, {name: all, nodes: rest}]', fleet);
    expect(canary?.nodes).toHaveLength(2);
    const late = made(
      `[{name: some, percent: 50}, {name: own, nodes: [${canary?.nodes.join()}]}, {name: all, nodes: rest}]`,
      fleet,
    );
    expect(late[0]?.nodes).toHaveLength(6);
    expect(late[0]?.nodes.some((name) => canary?.nodes.includes(name))).toBe(false);
  });

  test('the rest may come first, and is chosen last', () => {
    const waves = made('[{name: most, nodes: rest}, {name: last, count: 2}]', fleet);
    expect(waves.map(({ nodes }) => nodes.length)).toEqual([10, 2]);
  });

  test('another cluster has other canaries', () => {
    const canaries = ['shop', 'bank', 'post', 'farm'].map((cluster) =>
      made('[{name: canary, count: 2}, {name: all, nodes: rest}]', fleet, cluster)[0]?.nodes.join(),
    );
    expect(new Set(canaries).size).toBeGreaterThan(1);
  });

  test('the same nodes in another order are the same waves', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(fleet, { minLength: fleet.length }), (shuffled) => {
        const text = '[{name: canary, percent: 20}, {name: all, nodes: rest, maxUnavailable: 1}]';
        expect(made(text, shuffled)).toEqual(made(text, fleet));
      }),
      runs(50),
    );
  });

  test('a further node replaces at most one canary', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z]{1,12}$/), fc.integer({ min: 1, max: 12 }), (name, count) => {
        const text = `[{name: canary, count: ${count}}, {name: all, nodes: rest}]`;
        const before = new Set(
          made(`[{name: canary, count: ${count}}${count < 12 ? ', {name: all, nodes: rest}' : ''}]`, fleet)[0]?.nodes,
        );
        const after = made(text, [...fleet, node(name, 'a')])[0]?.nodes ?? [];
        expect(after.filter((one) => !before.has(one) && one !== name)).toEqual([]);
        expect(after).toHaveLength(count);
      }),
      runs(50),
    );
  });
});

describe('maxUnavailable', () => {
  test('splits a wave so that no part has more nodes of a zone', () => {
    const parts = made('[{name: all, nodes: rest, maxUnavailable: 2}]', fleet);
    expect(parts.map(({ name, chosenBy }) => `${name}: ${chosenBy}`)).toEqual([
      'all: the rest, part 1 of 3',
      'all-2: the rest, part 2 of 3',
      'all-3: the rest, part 3 of 3',
    ]);
    expect(parts.map(inZones)).toEqual([
      [2, 2, 2],
      [2, 2, 0],
      [2, 0, 0],
    ]);
  });

  test('as a share is of the nodes of the zone in the release, rounded down, and at least one', () => {
    const parts = made('[{name: first, nodes: [node-0]}, {name: all, nodes: rest, maxUnavailable: 50%}]', fleet);
    expect(parts.slice(1).map(inZones)).toEqual([
      [3, 2, 1],
      [2, 2, 1],
    ]);
    expect(made('[{name: all, nodes: rest, maxUnavailable: 10%}]', fleet).map(inZones)).toHaveLength(6);
  });

  test('leaves a wave that is small enough whole, with its name', () => {
    expect(made('[{name: all, nodes: rest, maxUnavailable: 6}]', fleet)).toMatchObject([
      { name: 'all', chosenBy: 'the rest' },
    ]);
  });
});
