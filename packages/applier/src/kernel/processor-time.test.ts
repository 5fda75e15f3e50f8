import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { processorMs } from './processor-time.ts';

test('counts the time of ended children, and no waiting', () => {
  const before = processorMs();
  execaSync('sh', ['-c', 'i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done']);
  const worked = processorMs() - before;
  execaSync('sleep', ['0.5']);
  expect(worked).toBeGreaterThan(20);
  expect(processorMs() - before - worked).toBeLessThan(400);
});
