// @module-tag test
import { atTier, randomOf, reaches, seed } from '@sluice/testing';
import { beforeEach, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { doubleFaults } from './doubles.ts';
import { type Fault, faults } from './faults.ts';
import { healthyNodes } from './healthy.ts';
import { runFault, runHealthy } from './rows.ts';

/**
 * The doctor on real nodes: each row breaks a node whose Service works, with Service, family, port and addresses drawn by the seed and two
 * harmless oddities. Tier `test` runs a part that the seed draws, `--all` every row, and a soak every row under four more seeds.
 */

beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'legacy'));

/** A part of a list, drawn by the seed. */
function part<T>(list: readonly T[], most: number, salt: number): readonly T[] {
  const random = randomOf(seed + salt);
  return list
    .map((one) => ({ one, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .slice(0, most)
    .map(({ one }) => one);
}

const some = atTier({
  quick: { faults: 3, doubles: 1, healthy: 1 },
  all: { faults: 1000, doubles: 1000, healthy: 1000 },
});

test('the table has 60 faults, 10 pairs and 20 healthy nodes', () => {
  expect(faults.length).toBeGreaterThanOrEqual(60);
  expect(new Set(faults.map(({ name }) => name)).size).toBe(faults.length);
  expect(doubleFaults.length).toBeGreaterThanOrEqual(10);
  expect(healthyNodes.length).toBeGreaterThanOrEqual(20);
});

test.each(part(faults, some.faults, 1).map((fault) => [fault.cause, fault.name, fault] as const))(
  '%s: %s',
  async (_cause, _name, fault) => {
    const { failure } = await runFault(seed, [fault]);
    expect(failure).toBe('');
  },
);

const titled = (pair: readonly [Fault, Fault]) => [pair[0].name, pair[1].name, pair] as const;
test.each(part(doubleFaults, some.doubles, 2).map(titled))('%s, and %s: both are named', async (_one, _other, pair) => {
  const { failure } = await runFault(seed, pair);
  expect(failure).toBe('');
});

test.each(part(healthyNodes, some.healthy, 3).map((node) => [node.name, node] as const))(
  'raises no alarm on a healthy node with %s',
  async (_name, node) => {
    const { failure } = await runHealthy(seed, node);
    expect(failure).toBe('');
  },
);

test.skipIf(!reaches('soak'))('five seeds: at least 95 of 100 right', { timeout: 60 * 60_000 }, async () => {
  const failures: string[] = [];
  let rows = 0;
  for (const one of [seed + 1, seed + 2, seed + 3, seed + 4]) {
    for (const fault of faults) {
      rows++;
      const { failure } = await runFault(one, [fault]);
      if (failure !== '') failures.push(failure);
    }
  }
  // Failures are listed, also where they are few enough.
  if (failures.length > 0) process.stderr.write(`${failures.length} of ${rows} wrong:\n${failures.join('\n')}\n`);
  expect(failures.length / rows).toBeLessThanOrEqual(0.05);
});
