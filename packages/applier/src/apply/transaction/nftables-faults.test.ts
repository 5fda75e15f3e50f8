import { afterEach, describe, expect, test } from 'vitest';
import type { NodeState } from '../../ports/node-state.ts';
import type { Reconciler } from '../reconcile/reconciler.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { Countdown, type CrashMoment, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { cartBundle, meetsOneOf, settledElements, watched } from '../../testing/nftables.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';

/** Mode nftables: the process crashes at each call of the kernel and the disk; the next one ends on the old state or the new one. */

let node: Scene | undefined;
afterEach(() => node?.end());

type Act = (reconciler: Reconciler, journal: { generation(number: number): Promise<unknown> }) => Promise<unknown>;

const put =
  (files: ReadonlyMap<string, string>): Act =>
  (reconciler) =>
    reconciler.put(files, true);
const rollBack: Act = async (reconciler, journal) =>
  reconciler.rollBackTo((await journal.generation(1)) as Parameters<Reconciler['rollBackTo']>[0]);

const settingsFirst = cartBundle([1, 2]);
const settingsLast = new Map([
  ...cartBundle([3]),
  [
    'profiles/default/base/last.nft',
    (settingsFirst.get('profiles/default/base/last.nft') ?? '').replace(
      'pods4 { 10.244.0.0/16 }',
      'pods4 { 10.0.0.0/8 }',
    ),
  ],
]);

const scenarios: readonly (readonly [string, readonly Act[], Act, boolean?])[] = [
  ['a first load', [], put(cartBundle([1, 2]))],
  ['a release', [put(cartBundle([1, 2]))], put(cartBundle([3]))],
  ['a release that fails its probe', [put(cartBundle([1, 2]))], put(cartBundle([3])), true],
  [
    'a second release, back into the first half',
    [put(cartBundle([1, 2])), put(cartBundle([3]))],
    put(cartBundle([1, 4, 5])),
  ],
  ['an endpoint update', [put(cartBundle([1, 2, 3]))], put(cartBundle([1, 3, 4]))],
  ['a last endpoint', [put(cartBundle([1]))], put(cartBundle([]))],
  ['a change of settings', [put(cartBundle([1, 2]))], put(settingsLast)],
  ['a manual rollback', [put(cartBundle([1, 2])), put(cartBundle([3]))], rollBack],
  ['the way from mode iptables', [put(sampleBundle())], put(cartBundle([1, 2]))],
  ['the way from mode iptables, with a probe that fails', [put(sampleBundle())], put(cartBundle([1, 2])), true],
  ['the way to mode iptables', [put(cartBundle([1, 2]))], put(sampleBundle())],
  ['the way to mode iptables, with a probe that fails', [put(cartBundle([1, 2]))], put(sampleBundle()), true],
];

interface Ending {
  readonly didCrash: boolean;
  readonly wrong: readonly string[];
}

/** One run of a scenario, with a crash at a call. */
async function run(
  [, before, act, isFailing]: (typeof scenarios)[number],
  layout: Scene['layout'],
  at: number,
  moment: CrashMoment,
): Promise<Ending> {
  const self = (node = scene());
  self.layout = layout;
  for (const one of before) {
    const { reconciler, journal } = await self.start();
    await one(reconciler, journal);
  }
  const states: NodeState[] = [];
  const wrong: string[] = [];
  const countdown = new Countdown(at, moment);
  const own = (await self.start()).journal;
  const journal = mortalJournal(own, countdown);
  const begin = journal.begin.bind(journal);
  const noting = Object.assign(journal, {
    begin: async (opening: Parameters<typeof begin>[0]) => {
      states.push(opening.state);
      await begin(opening);
    },
  });
  const old = own.active?.state;
  if (old) states.push(old);
  const look = async (): Promise<void> => {
    const observed = await self.kernel.nft.observe();
    const ofNft = states.filter(({ nft }) => nft);
    if (observed && ofNft.length > 0 && !meetsOneOf(observed, ofNft)) wrong.push(`at call ${countdown.calls}`);
  };
  let rounds = 0;
  if (isFailing) self.health = () => ++rounds < 2;
  const kernel = watched(mortalKernel(self.kernel, countdown), look);
  const first = await self.start({}, { kernel, journal: noting, clock: steppingClock() });
  const didCrash = await act(first.reconciler, own).then(
    () => countdown.calls > at,
    () => true,
  );
  self.health = () => true;
  const next = await self.start({}, { clock: steppingClock() });
  await next.reconciler.recover();
  await next.reconciler.repair();
  const { held, expected } = await settledElements(self.kernel, next.journal.active?.state);
  if (held.join('\n') !== expected.join('\n')) wrong.push('the table does not hold the active generation');
  const differences = next.journal.active ? await next.reconciler.differences() : [];
  if (next.journal.open || next.journal.halted !== undefined) wrong.push(`open or halted: ${next.journal.halted}`);
  self.end();
  return { didCrash, wrong: [...wrong, ...differences] };
}

/** Layouts are of mode iptables: without it a node has that of most nodes, as in `dataPlanes`. */
const inLayout = (layout: Scene['layout']): readonly (typeof scenarios)[number][] =>
  scenarios.filter(([name]) => layout === 'tree' || name.includes('mode iptables'));

describe.each(['flat', 'tree'] as const)('in layout %s', (layout) => {
  test.each(inLayout(layout).map((scenario) => ({ name: scenario[0], scenario })))(
    '$name, with a crash at each call',
    async ({ scenario }) => {
      const found: string[] = [];
      let crashes = 0;
      for (const moment of ['before', 'after'] as const) {
        for (let at = 0; ; at++) {
          const { didCrash, wrong } = await run(scenario, layout, at, moment);
          for (const one of wrong) found.push(`${moment} call ${at}: ${one}`);
          if (!didCrash) break;
          crashes += 1;
        }
      }
      expect(found).toEqual([]);
      expect(crashes).toBeGreaterThan(4);
    },
  );
});
