import { expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { ToolWatch } from './tool-watch.ts';

test('names a tool that has not ended for half of its time limit', async () => {
  let nowMs = 0;
  const watch = new ToolWatch(() => nowMs);
  const { promise, resolve } = Promise.withResolvers<void>();
  const run = watch.through(async () => {
    await promise;
    return { exitCode: 0, stdout: '', stderr: '', why: '' };
  });
  const ran = [
    run({ file: '/usr/sbin/nft', args: [] }),
    run({ file: '/usr/sbin/conntrack', args: [], timeoutMs: 300_000 }),
  ];
  nowMs = limits.commandTimeoutMs / 2 - 1;
  expect(watch.slow).toBeUndefined();
  nowMs += 1;
  expect(watch.slow).toBe('nft has not ended for 30 s; it is killed at its time limit, and its work is tried again');
  resolve();
  await Promise.all(ran);
  expect(watch.slow).toBeUndefined();
});
