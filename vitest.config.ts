import { defineConfig } from 'vitest/config';
import { SummaryReporter } from './tools/summary-reporter.ts';

/** Tests that touch a kernel: one at a time, each file in a process of its own. */
const alone = {
  maxWorkers: 1,
  fileParallelism: false,
  pool: 'forks',
  testTimeout: 60_000,
  hookTimeout: 60_000,
} as const;

export default defineConfig({
  test: {
    reporters: ['default', new SummaryReporter()],
    coverage: { provider: 'v8', include: ['packages/*/src/**'], reporter: ['text', 'json-summary'] },
    projects: [
      {
        test: {
          name: 'unit',
          isolate: false,
          include: ['packages/*/src/**/*.test.ts', 'test/*.test.ts', 'test/review/*.test.ts', 'tools/*.test.ts'],
        },
      },
      { test: { name: 'kernel', include: ['test/netns/**/*.test.ts'], ...alone } },
    ],
  },
});
