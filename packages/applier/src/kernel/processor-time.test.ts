import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { processorMs, threadMs, WorkCost } from './processor-time.ts';
import { runChildren } from './run.ts';

const shell = (script: string) => ({ file: '/bin/sh', args: ['-c', script] });
/** Some 60 ms of a processor. */
const busy = 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done';
/** Works for so many milliseconds of processor time. */
function work(ms: number): void {
  for (const begin = threadMs(); threadMs() - begin < ms; );
}

test('counts the time of ended children, and no waiting', () => {
  const before = processorMs();
  execaSync('sh', ['-c', 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done']);
  const worked = processorMs() - before;
  execaSync('sleep', ['0.5']);
  expect(worked).toBeGreaterThan(20);
  expect(processorMs() - before - worked).toBeLessThan(400);
});

test('counts the tools of one activity, and what takes their output, beside other work', async () => {
  const [mine, others] = [new WorkCost(), new WorkCost()];
  const run = runChildren();
  const beginMs = processorMs();
  using scratch = mkdtempDisposableSync(join(tmpdir(), 'sluiced-cost-'));
  const goOn = join(scratch.path, 'go-on');
  // Children that end in the same moment count for the first of them: this one ends after the others.
  const last = mine.of(run)({
    ...shell(`echo first; ${busy}; while [ ! -e ${goOn} ]; do sleep 0.05; done`),
    onOutput: () => work(100),
  });
  await run(shell(busy));
  await others.of(run)(shell(`${busy}; ${busy}; ${busy}`));
  writeFileSync(goOn, '');
  await last;
  mine.own(() => work(50));
  const usedMs = processorMs() - beginMs;
  expect(mine.usedMs).toBeGreaterThan(150 + 0.05 * usedMs);
  expect(mine.usedMs).toBeLessThan(0.7 * usedMs);
  // Three loops beside one: the same loop takes half as long again on a processor that is shared.
  expect(others.usedMs).toBeGreaterThan(mine.usedMs - 150);
  expect(mine.usedMs + others.usedMs).toBeLessThan(usedMs);
});

test('counts work that fails, and a tool that cannot be started', async () => {
  const cost = new WorkCost();
  expect(() =>
    cost.own(() => {
      work(20);
      throw new Error('it fails');
    }),
  ).toThrow('it fails');
  expect(cost.usedMs).toBeGreaterThanOrEqual(20);
  expect((await cost.of(runChildren())({ file: '/nowhere', args: [] })).exitCode).toBeUndefined();
});
