import { existsSync } from 'node:fs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Run } from '../../kernel/command.ts';
import { drainBeforeShutdown } from './run.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const hasSystemd = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'].some((folder) => existsSync(`${folder}/systemctl`));

test.skipIf(!hasSystemd).each([
  ['a machine that shuts down', 30, 'stopping\n', ['begin null shutdown']],
  ['one that goes on, where only sluiced restarts', 30, 'running\n', []],
  ['one that is degraded', 30, 'degraded\n', []],
  ['one whose config asks for no drain', 0, 'stopping\n', []],
])('%s (needs systemctl)', async (_title, seconds, stdout, expected) => {
  const done: string[] = [];
  const run: Run = async () => ({ exitCode: 1, stdout, stderr: '', why: '' });
  const drain = { begin: (until: number | null, because: string) => void done.push(`begin ${until} ${because}`) };
  let isOver = false;
  const log = { info: () => undefined, warn: () => undefined };
  const ending = drainBeforeShutdown(seconds, drain, run, log).then(() => (isOver = true));
  await vi.advanceTimersByTimeAsync(29_000);
  expect(isOver).toBe(expected.length === 0);
  await vi.advanceTimersByTimeAsync(1_000);
  await ending;
  expect(done).toEqual(expected);
});
