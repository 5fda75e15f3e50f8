import { describe, expect, test } from 'vitest';
import { makeWaves, printOpening, printWaves, readOpening, readWaves, readWaveSpecs } from './waves.ts';

const head = 'apiVersion: sluice.dev/v1alpha1\nkind: Waves\n';
const nodes = ['1e3', 'node-a', 'node-b', 'node-c'];
const wish = (waves: string) => {
  const wishes = readWaveSpecs('waves.yaml', `${head}waves: ${waves}\n`);
  return 'code' in wishes ? wishes : makeWaves('waves.yaml', wishes, nodes);
};

describe('waves', () => {
  test('the rest are the nodes that no other wave lists, for any order', () => {
    expect(wish('[{name: canary, nodes: [node-b]}, {name: all, nodes: rest}]')).toEqual([
      { name: 'canary', nodes: ['node-b'] },
      { name: 'all', nodes: ['1e3', 'node-a', 'node-c'] },
    ]);
  });

  test('read back, even where a node looks like a number', () => {
    const waves = [
      { name: '7', nodes: ['1e3'] },
      { name: 'all', nodes: ['node-a', 'node-b'] },
    ];
    expect(readWaves(printWaves(waves))).toEqual(waves);
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
    ['two rests', '[{name: a, nodes: rest}, {name: b, nodes: rest}]', 'two waves have `nodes: rest`'],
    ['two waves of one name', '[{name: a, nodes: [node-a]}, {name: a, nodes: rest}]', 'two waves are called a'],
    [
      'nothing left for the rest',
      '[{name: a, nodes: ["1e3", node-a, node-b, node-c]}, {name: b, nodes: rest}]',
      'wave b has no node',
    ],
    ['a name with a line end', '[{name: "a\\nb", nodes: rest}]', 'waves is'],
    ['a key that is not known', '[{name: a, nodes: rest, run: x}]', 'waves is'],
  ])('with %s are refused', (_title, text, expected) => {
    expect(wish(text)).toMatchObject({ code: 'WAVES_INVALID', message: expect.stringContaining(expected) });
  });

  test('the waves of a release must list their nodes', () => {
    expect(readWaves(`${head}waves: [{name: a, nodes: rest}]\n`)).toMatchObject({ code: 'WAVES_INVALID' });
  });
});

describe('waves-open.yaml', () => {
  const release = 'a'.repeat(64);

  test('opening a wave changes one line', () => {
    const [before, after] = [printOpening({ release, open: 1 }), printOpening({ release, open: 2 })].map((text) =>
      text.split('\n'),
    );
    expect(before?.filter((line, index) => line !== after?.[index])).toEqual(['open: 1']);
    expect(readOpening(printOpening({ release, open: 2 }))).toEqual({ release, open: 2 });
  });

  test.each(['open: 1.5', 'open: -1', 'open: "1"', 'open: 65', 'open: yes', ''])('is refused with %j', (line) => {
    const text = printOpening({ release, open: 1 }).replace('open: 1', line);
    expect(readOpening(text)).toMatchObject({ code: 'WAVES_INVALID' });
  });
});
