import { afterEach, expect, test } from 'vitest';
import type { Journal } from '../../ports/journal.ts';
import type { Kernel } from '../../ports/kernel.ts';
import type { NodeState } from '../../ports/node-state.ts';
import {
  Countdown,
  type CrashMoment,
  failingKernel,
  mortalJournal,
  mortalKernel,
} from '../../testing/faults.fixture.ts';
import { meetsOneOf, settledElements, watched } from '../../testing/nftables.fixture.ts';
import { servedPods, serviceProbes, shopBundle, startWith, told } from '../../testing/partial.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/**
 * One of three changed Services is rolled back. The process crashes at each call of the kernel and the disk, and each step is refused, or
 * taken although its tool fails: the node ends with the old generation or with the partial one, and never with anything else.
 */

let node: Scene | undefined;
afterEach(() => node?.end());

const before = shopBundle({ cart: [1, 2], docs: [3, 4], web: [5, 6] });
const release = shopBundle({ cart: [91, 92], docs: [13, 14], web: [15, 16] });

const endings: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '1.0': { cart: '1 2', docs: '3 4', web: '5 6' },
  '2.1 without shop/cart': { cart: '1 2', docs: '13 14', web: '15 16' },
};

/** What is wrong with the node after everything has ended; and its generation. */
async function judge(self: Scene): Promise<{ readonly ending: string; readonly wrong: readonly string[] }> {
  const { reconciler, journal } = await startWith(self);
  await reconciler.recover();
  await reconciler.repair();
  const ending = told(journal.active);
  const { held, expected } = await settledElements(self.kernel, journal.active?.state);
  const served = JSON.stringify(await servedPods(self));
  const wrong = [
    ...(held.join('\n') === expected.join('\n') ? [] : ['the table does not hold the active generation']),
    ...(served === JSON.stringify(endings[ending]) ? [] : [`generation ${ending} serves ${served}`]),
    ...(journal.open ? ['a transaction is open'] : []),
    ...(journal.halted === undefined ? [] : [`halted: ${journal.halted}`]),
    ...(await reconciler.differences()),
  ];
  const isQuarantined = journal.quarantinedServices.some(({ service }) => service === 'shop/cart');
  if (isQuarantined !== (ending !== '1.0'))
    wrong.push(`generation ${ending}, but shop/cart is quarantined: ${isQuarantined}`);
  return { ending, wrong };
}

interface Run {
  readonly ending: string;
  readonly wrong: readonly string[];
  readonly calls: number;
}

async function run(
  faulty: (kernel: Kernel, journal: Journal) => readonly [Kernel, Journal],
  calls: () => number,
): Promise<Run> {
  const self = (node = scene());
  await (await startWith(self)).reconciler.put(before, true);
  const { journal: own } = await self.start();
  const states: NodeState[] = own.active ? [own.active.state] : [];
  const wrong: string[] = [];
  const look = async (): Promise<void> => {
    const observed = await self.kernel.nft.observe();
    if (!observed || !meetsOneOf(observed, states)) wrong.push(`at call ${calls()}: packets meet neither version`);
  };
  const [kernel, journal] = faulty(self.kernel, own);
  const begin = journal.begin.bind(journal);
  const noting = Object.assign(journal, {
    begin: async (opening: Parameters<typeof begin>[0]) => {
      states.push(opening.state);
      await begin(opening);
    },
  });
  const { reconciler } = await startWith(self, serviceProbes(self), { kernel: watched(kernel, look), journal: noting });
  // Not by an operator: a version that was tried is not tried again.
  await reconciler.put(release, false).catch(() => undefined);
  const judged = await judge(self);
  // The release is still in the directory, and is tried again where it was rolled back without blame.
  if (judged.ending === '1.0') await (await startWith(self)).reconciler.put(release, false);
  const later = judged.ending === '1.0' ? await judge(self) : judged;
  self.end();
  return { ending: judged.ending, wrong: [...new Set([...wrong, ...judged.wrong, ...later.wrong])], calls: calls() };
}

test('ends with the old generation or the partial one when the process crashes at any call', async () => {
  const found: string[] = [];
  const seen = new Map<string, number>();
  for (const moment of ['before', 'after'] satisfies readonly CrashMoment[]) {
    for (let at = 0; ; at++) {
      const countdown = new Countdown(at, moment);
      const faulty = (kernel: Kernel, journal: Journal): readonly [Kernel, Journal] => [
        mortalKernel(kernel, countdown),
        mortalJournal(journal, countdown),
      ];
      const { ending, wrong, calls } = await run(faulty, () => countdown.calls);
      for (const one of wrong) found.push(`${moment} call ${at}: ${one}`);
      seen.set(ending, (seen.get(ending) ?? 0) + 1);
      if (calls <= at) break;
    }
  }
  expect(found).toEqual([]);
  // Both endings, at several calls each.
  expect([...seen.keys()].toSorted()).toEqual(Object.keys(endings));
  expect(Math.min(...seen.values())).toBeGreaterThan(3);
});

test.each([true, false])('ends with one of them when a step fails, and the kernel took it: %s', async (lies) => {
  const found: string[] = [];
  const seen = new Set<string>();
  for (let at = 0; at < 12; at++) {
    let steps = 0;
    const fails = (index: number): boolean => {
      steps = index;
      return index === at;
    };
    const faulty = (kernel: Kernel, journal: Journal): readonly [Kernel, Journal] => [
      failingKernel(kernel, { fails, lies }),
      mortalJournal(journal, new Countdown(-1, 'before')),
    ];
    const { ending, wrong } = await run(faulty, () => steps);
    for (const one of wrong) found.push(`step ${at}: ${one}`);
    seen.add(ending);
  }
  expect(found).toEqual([]);
  expect([...seen].toSorted()).toEqual(Object.keys(endings));
});

test('ends with the old generation when the disk takes no write for the rest of the probation', async () => {
  const full = (_kernel: Kernel, journal: Journal): readonly [Kernel, Journal] => [
    _kernel,
    Object.assign(mortalJournal(journal, new Countdown(-1, 'before')), {
      offer: async () => {
        throw new Error('no space left on the device');
      },
    }),
  ];
  const { ending, wrong } = await run(full, () => 0);
  expect({ ending, wrong }).toEqual({ ending: '1.0', wrong: [] });
});
