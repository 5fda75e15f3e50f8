import { existsSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Run } from '../../kernel/command.ts';
import { drainBeforeShutdown } from './run.ts';

const hasSystemd = ['/usr/sbin', '/usr/bin', '/sbin', '/bin'].some((folder) => existsSync(`${folder}/systemctl`));

test.skipIf(!hasSystemd).each([
  ['a machine that shuts down', 0.5, 'stopping\n', ['begin null shutdown']],
  ['one that goes on, where only sluiced restarts', 0.5, 'running\n', []],
  ['one that is degraded', 0.5, 'degraded\n', []],
  ['one whose config asks for no drain', 0, 'stopping\n', []],
])('%s (needs systemctl)', async (_title, seconds, stdout, expected) => {
  const done: string[] = [];
  const run: Run = async () => ({ exitCode: 1, stdout, stderr: '', why: '' });
  const drain = { begin: (until: number | null, because: string) => void done.push(`begin ${until} ${because}`) };
  let isOver = false;
  const log = { info: () => undefined, warn: () => undefined };
  const begunMs = performance.now();
  const ending = drainBeforeShutdown(seconds, drain, run, log).then(() => (isOver = true));
  await nextTurn();
  expect(isOver).toBe(expected.length === 0);
  await ending;
  // Timers may be early by a part of a millisecond.
  expect(performance.now() - begunMs).toBeGreaterThanOrEqual(expected.length * 499);
  expect(done).toEqual(expected);
});
