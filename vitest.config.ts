import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './tools/summary-reporter.ts';

/**
 * In CI a test that fails is tried once more, and is named with what went wrong the first time: a busy machine is to keep nobody's change
 * out, and nobody is to overlook it. Who changes a test runs it without.
 */
const again = { retry: process.env['CI'] === undefined ? 0 : 1 } as const;

/** Tests that touch a kernel: one at a time, each file in a process of its own. */
const alone = {
  ...again,
  maxWorkers: 1,
  fileParallelism: false,
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 60_000,
} as const;

/** Projects run one after the other: guests and clusters of namespaces measure time, and have two cores. */
const order = (groupOrder: number) => ({ sequence: { groupOrder } });

/** The guest hands on the message of a failed test and nothing else of it: nothing may be cut. */
const whole = { chaiConfig: { truncateThreshold: 0 } } as const;

/** Only in the emulated guest, which test/vm boots: these tests change the rules of the machine that they run on. */
const guest = {
  test: { name: 'guest', include: ['test/vm/inside/**/*.test.ts', 'test/netns/kernel.test.ts'], ...alone, ...whole },
};

export default defineConfig({
  test: {
    reporters: ['default', new SummaryReporter()],
    coverage: { provider: 'v8', include: ['packages/*/src/**'], reporter: ['text', 'json-summary'] },
    projects: [
      {
        test: {
          name: 'unit',
          ...again,
          isolate: false,
          ...order(0),
          // For what hangs; a machine that is busy is no fault.
          testTimeout: 30_000,
          include: [
            'packages/*/src/**/*.test.ts',
            'test/*.test.ts',
            'test/cluster/*.test.ts',
            'test/fuzz/*.test.ts',
            'test/registry/*.test.ts',
            'test/review/*.test.ts',
            'test/report/*.test.ts',
            'test/pipeline/*.test.ts',
            'tools/*.test.ts',
          ],
        },
      },
      {
        test: {
          name: 'kernel',
          include: ['test/netns/**/*.test.ts', 'test/runbooks/*.test.ts', 'test/faults/*.test.ts'],
          ...alone,
          ...order(1),
        },
      },
      { test: { name: 'vm', include: ['test/vm/*.test.ts'], ...alone, ...order(2) } },
      {
        test: {
          name: 'package',
          include: ['test/package/*.test.ts'],
          globalSetup: ['test/package/setup.ts'],
          ...alone,
          ...order(3),
          testTimeout: 120_000,
          hookTimeout: 300_000,
        },
      },
      ...(process.env['SLUICE_GUEST'] === '1' ? [guest] : []),
    ],
  },
});
