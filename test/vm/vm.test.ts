import { test } from 'vitest';
import { bootGuest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { type GuestResult, runInGuest } from './suite.ts';

/**
 * Boots the guest and runs in it what needs a kernel of its own: everything in `inside`, and the kernel contract, which so runs
 * on a second kernel. Each test of the guest counts as one here.
 */

const suites = ['test/netns/kernel.test.ts', 'test/vm/inside'];
const suitesMsMax = 8 * 60_000;

const reason = whyNoGuest();
if (reason === undefined) for (const result of await results()) register(result);
else test('tests in the emulated guest', ({ skip }) => skip(reason));

async function results(): Promise<readonly GuestResult[]> {
  await using guest = await bootGuest();
  const started = performance.now();
  const found = await runInGuest(guest, suites, suitesMsMax);
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
  process.stdout.write(
    `guest: booted in ${seconds(guest.bootMs)}, tests took ${seconds(performance.now() - started)}\n`,
  );
  return found;
}

function register({ file, name, state, message }: GuestResult): void {
  test(`${file}: ${name}`, ({ skip }) => {
    if (state === 'skipped') skip('it skipped itself in the guest');
    if (state === 'failed') throw new Error(message);
  });
}
