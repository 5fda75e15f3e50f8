import { defineConfig } from 'vitest/config';

/**
 * Only in the emulated guest, which test/vm boots: these tests change the rules of the machine that they run on. It imports nothing of the
 * checkout, as every module costs an emulated processor a second.
 */
export default defineConfig({
  test: {
    name: 'guest',
    include: [
      'test/vm/inside/**/*.test.ts',
      'test/netns/{health-port,kernel,nftables-packets,node-promises,vip}.test.ts',
      'test/surroundings/surroundings.test.ts',
    ],
    tags: ['quick', 'test', 'all', 'alone'].map((name) => ({ name })),
    pool: 'forks',
    maxWorkers: 1,
    fileParallelism: false,
    retry: 1,
    // For what hangs: an emulated machine is slow, and slower beside other tests.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    teardownTimeout: 120_000,
    // The guest hands on the message of a failed test and nothing else of it: nothing may be cut.
    chaiConfig: { truncateThreshold: 0 },
  },
});
