import { describe, expect, test } from 'vitest';
import { asLines, trafficExamples } from './netns/traffic-examples.ts';
import { programsOf } from './netns/traffic-nodes.ts';
import { predict } from './netns/traffic-trace.ts';

/** These tests start programs, on a machine that may be busy. */
const startsProgramsMs = 30_000;

describe.each(trafficExamples())('$name', ({ table, spec, render }) => {
  test.each(['flat', 'tree'] as const)(
    'traces every packet of the table to its verdict, in layout %s',
    async (layout) => {
      const programs = programsOf(await render(), layout);
      expect(asLines(table.packets, (row) => predict(spec, programs, row))).toEqual(asLines(table.packets));
    },
    startsProgramsMs,
  );
});
