import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { bootGuest } from './guest.ts';
import { whyNoGuest } from './image.ts';
import { type GuestResult, runInGuest } from './suite.ts';

/**
 * Boots guests and runs in them what needs a kernel of its own: everything in `inside`, and the kernel contract, which so runs
 * on a second kernel. Each test of a guest counts as one here.
 */

const soak = process.env['SLUICE_SOAK'] === '1';
const inside = join(import.meta.dirname, 'inside');
const allInside = readdirSync(inside).filter((name) => name.endsWith('.test.ts'));
/** An emulator uses one processor, and the machines that test have two: these files run in a guest of their own, beside the others. */
const second: ReadonlySet<string> = new Set(['endpoints.test.ts', 'kills.test.ts', 'modes.test.ts']);
const suites = [
  ['test/netns/kernel.test.ts', ...inFolder(allInside.filter((name) => !second.has(name)))],
  inFolder(allInside.filter((name) => second.has(name))),
];
/** A soak kills at every step. */
const suitesMsMax = (soak ? 60 : 25) * 60_000;

const reason = whyNoGuest();
const found = reason === undefined ? (await Promise.all(suites.map(results))).flat() : [];

test('tests run in the emulated guest', ({ skip }) => {
  if (reason !== undefined) skip(reason);
  expect(found.length).toBeGreaterThan(0);
});

// What happened in the guest does not change when it is looked at again: the tries are there.
test.for(found)('$file: $name', { retry: 0 }, ({ state, message }, { skip }) => {
  if (state === 'skipped') skip('it skipped itself in the guest');
  expect(state === 'passed' ? '' : message).toBe('');
  expect(state).toBe('passed');
});

function inFolder(names: readonly string[]): readonly string[] {
  return names.toSorted(compareText).map((name) => `test/vm/inside/${name}`);
}

async function results(files: readonly string[]): Promise<readonly GuestResult[]> {
  await using guest = await bootGuest();
  const started = performance.now();
  const ended = await runInGuest(guest, files, suitesMsMax);
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`;
  const tests = `tests of ${files.length} files took ${seconds(performance.now() - started)}`;
  for (const { name, state, message } of ended)
    if (state === 'passed' && message !== '')
      process.stdout.write(`second try: ${name} (${message.split('\n')[0] ?? ''})\n`);
  process.stdout.write(`guest: booted in ${seconds(guest.bootMs)}, ${tests}\n`);
  return ended;
}
