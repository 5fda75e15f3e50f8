import { describe, expect, test } from 'vitest';
import { readDocument } from '../documents.ts';
import { printOpening, printWaves, readOpening, readWaves } from './waves.ts';

const head = 'apiVersion: sluice.dev/v1alpha1\nkind: Waves\n';

describe('waves', () => {
  test('read back, even where a node looks like a number', () => {
    const waves = [
      { name: '7', nodes: ['1e3'] },
      { name: 'all', nodes: ['node-a', 'node-b'] },
    ];
    expect(readWaves(printWaves(waves))).toEqual(waves);
  });

  test('of a release must list their nodes, and choose nothing', () => {
    for (const wave of ['{name: a, nodes: rest}', '{name: a, count: 1}', '{name: a, nodes: [n], maxUnavailable: 1}'])
      expect(readWaves(`${head}waves: [${wave}]\n`)).toMatchObject({ code: 'WAVES_INVALID' });
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

  test('says how often waves were closed, which the first version refuses', () => {
    const closed = { release, closings: 1, open: 1 };
    expect(printOpening(closed)).toBe(
      `apiVersion: sluice.dev/v1alpha1\nkind: WavesOpen\nrelease: "${release}"\nclosings: 1\nopen: 1\n`,
    );
    expect(readOpening(printOpening(closed))).toEqual(closed);
    // The keys that a sluiced of version 0.1.0 knows: with any other it takes no file of the format for an opening.
    const known = { release: () => true, open: () => true };
    expect(readDocument('waves-open.yaml', printOpening(closed), 'WavesOpen', known)).toMatchObject({
      message: expect.stringContaining('WavesOpen has no key "closings"'),
      hint: expect.stringContaining('upgrade sluiced first'),
    });
  });

  test.each(['closings: 0', 'closings: 1000', 'closings: "1"', 'closings: null'])('is refused with %j', (line) => {
    const text = printOpening({ release, closings: 1, open: 1 }).replace('closings: 1', line);
    expect(readOpening(text)).toMatchObject({ code: 'WAVES_INVALID' });
  });

  test.each(['open: 1.5', 'open: -1', 'open: "1"', 'open: 65', 'open: yes', ''])('is refused with %j', (line) => {
    const text = printOpening({ release, open: 1 }).replace('open: 1', line);
    expect(readOpening(text)).toMatchObject({ code: 'WAVES_INVALID' });
  });
});
