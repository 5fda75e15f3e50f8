// @module-tag all
import { expect, test } from 'vitest';
import { bootGuest } from './guest.ts';
import { type GuestKernel, whyNoGuest } from './image.ts';
import { reportTests } from './report-tests.ts';
import { type GuestResult, runInGuest } from './suite.ts';

/** Mode nftables on kernels other than the machine's, one guest after the other: packets, and where emulated.test.ts does not run it the contract. */

const packets = ['test/netns/nftables-packets.test.ts'];
/** On nf_tables alone: mode nftables does not use the legacy store. */
const contract = ['test/netns/kernel.test.ts', '-t', 'nft'];
/** The arguments of each run of vitest in the guest. */
const suites: readonly (readonly [GuestKernel, readonly (readonly string[])[]])[] = [
  ['6.12', [packets, contract]],
  ['6.1', [packets]],
];
/** Beside other tests an emulator has a quarter of a processor. */
const runMsMax = 40 * 60_000;

const found: (GuestResult & { readonly title: string })[] = [];
for (const [kernel, runs] of suites)
  if (whyNoGuest(kernel) === undefined)
    for (const result of await results(kernel, runs)) found.push({ ...result, title: `Linux ${kernel}` });

test.for(suites)('tests run in a guest with Linux %s', ([kernel], { skip }) => {
  const reason = whyNoGuest(kernel);
  if (reason !== undefined) skip(reason);
  expect(found.some(({ title }) => title === `Linux ${kernel}`)).toBe(true);
});

reportTests(found);

async function results(kernel: GuestKernel, runs: readonly (readonly string[])[]): Promise<readonly GuestResult[]> {
  await using guest = await bootGuest({ kernel });
  const { stdout } = await guest.run(['uname', '-r']);
  if (!stdout.startsWith(`${kernel}.`)) throw new Error(`The guest runs Linux ${stdout.trim()}, and not ${kernel}`);
  const ended: GuestResult[] = [];
  for (const run of runs) ended.push(...(await runInGuest(guest, run, runMsMax)));
  // What `-t` leaves out.
  return ended.filter(({ state }) => state !== 'skipped');
}
