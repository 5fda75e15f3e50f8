import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { patiently } from './patiently.ts';

/** Work that fails so many times, and takes so long to fail. */
function failing(times: number, takesMs: number) {
  let [nowMs, tries] = [0, 0];
  const time = { monotonicMs: () => nowMs, sleep: async (ms: number) => void (nowMs += ms) };
  const work = async (): Promise<string> => {
    tries++;
    if (tries > times) return 'done';
    nowMs += takesMs;
    throw new Error(`try ${tries}`);
  };
  return { time, work, nowMs: () => nowMs };
}

test('what fails once or twice, soon, is tried again', async () => {
  const { work, time } = failing(limits.bootAttemptsMax - 1, 1_000);
  expect(await patiently(work, time)).toBe('done');
});

test('what fails again and again is given up', async () => {
  const { work, time } = failing(Infinity, 1_000);
  await expect(patiently(work, time)).rejects.toThrow(`try ${limits.bootAttemptsMax}`);
});

test('what takes long to fail is not tried again', async () => {
  const { work, time } = failing(1, limits.commandTimeoutMs);
  await expect(patiently(work, time)).rejects.toThrow('try 1');
});

test('after the slowest tries, a tool that hangs at the last of them, the unit leaves time for a tool that hangs on the way back', async () => {
  const unit = readFileSync(new URL('../../systemd/sluiced-boot.service', import.meta.url), 'utf8');
  const allowedMs = Number(/^TimeoutStartSec=(\d+)$/m.exec(unit)?.[1]) * 1000;
  const hangsMs = limits.commandTimeoutMs + limits.commandKillDelayMs;
  expect(limits.bootPatienceMs).toBeLessThan(hangsMs);
  expect(limits.bootPatienceMs + limits.rollbackIntervalMs + 2 * hangsMs).toBeLessThan(allowedMs);
});
