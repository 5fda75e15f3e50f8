import { expect, test } from 'vitest';
import { bootGuest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { type GuestResult, runInGuest } from './suite.ts';

/**
 * Boots the guest and runs in it what needs a kernel of its own: everything in `inside`, and the kernel contract, which so runs
 * on a second kernel. Each test of the guest counts as one here.
 */

const soak = process.env['SLUICE_SOAK'] === '1';
/** Schedulers, drains, kills and changes of mode take as long again as everything else: they are for the soak. */
const suites = soak
  ? ['test/netns/kernel.test.ts', 'test/vm/inside']
  : ['test/netns/kernel.test.ts', ...['guest', 'ipvs', 'traffic'].map((name) => `test/vm/inside/${name}.test.ts`)];
/** A soak kills at every step. */
const suitesMsMax = (soak ? 60 : 15) * 60_000;

const reason = whyNoGuest();
const found = reason === undefined ? await results() : [];

test('tests run in the emulated guest', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

test.for(found)('$file: $name', ({ state, message }, { skip }) => {
  if (state === 'skipped') skip('it skipped itself in the guest');
  expect(message).toBe('');
  expect(state).toBe('passed');
});

async function results(): Promise<readonly GuestResult[]> {
  await using guest = await bootGuest();
  const started = performance.now();
  const ended = await runInGuest(guest, suites, suitesMsMax);
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
  process.stdout.write(
    `guest: booted in ${seconds(guest.bootMs)}, tests took ${seconds(performance.now() - started)}\n`,
  );
  return ended;
}
