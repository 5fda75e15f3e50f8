import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { untilVerdict } from './boot.ts';

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

test('retries work that fails fast once or twice', async () => {
  const { work, time } = failing(limits.bootAttemptsMax - 1, 1_000);
  expect(await untilVerdict(work, time)).toBe('done');
});

test('gives up after repeated failures', async () => {
  const { work, time } = failing(Infinity, 1_000);
  await expect(untilVerdict(work, time)).rejects.toThrow(`try ${limits.bootAttemptsMax}`);
});

test('does not retry work that takes long to fail', async () => {
  const { work, time } = failing(1, limits.commandTimeoutMs);
  await expect(untilVerdict(work, time)).rejects.toThrow('try 1');
});

test("leaves time within the unit's timeout for a rollback after the slowest tries", async () => {
  const unit = readFileSync(new URL('../../../systemd/sluiced-boot.service', import.meta.url), 'utf8');
  const allowedMs = Number(/^TimeoutStartSec=(\d+)$/m.exec(unit)?.[1]) * 1000;
  const hangsMs = limits.commandTimeoutMs + limits.commandKillDelayMs;
  expect(limits.bootPatienceMs).toBeLessThan(hangsMs);
  expect(limits.bootPatienceMs + limits.rollbackIntervalMs + 2 * hangsMs).toBeLessThan(allowedMs);
});
