import { describe, expect, test } from 'vitest';
import { asLines, trafficExamples } from './netns/traffic-examples.ts';
import { programsOf } from './netns/traffic-nodes.ts';
import { predict } from './netns/traffic-trace.ts';

/** These tests start programs, on a machine that may be busy. */
const startsProgramsMs = 30_000;

describe.each(trafficExamples())('$name', ({ table, spec, render }) => {
  test(
    'the tracer follows every packet of the table to its verdict',
    async () => {
      const programs = programsOf(await render());
      expect(asLines(table.packets, (row) => predict(spec, programs, row))).toEqual(asLines(table.packets));
    },
    startsProgramsMs,
  );
});
