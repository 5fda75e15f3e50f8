import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Outcome } from '../../ports/outcome.ts';
import { stepsOf } from '../plan/transaction-plan.ts';
import { dataPlanes } from '../../testing/data-plane.fixture.ts';
import { Countdown, failingKernel, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { everythingIn, firstOf, foreign, foreignLinesIn, secondOf } from './reconciler.fixture.ts';

let node: Scene;
afterEach(() => node.end());
const everything = (): Promise<string> => everythingIn(node);

describe.each(dataPlanes)('faults in layout $layout, mode $mode', ({ layout, mode }) => {
  beforeEach(() => {
    node = scene({ rules: { ipv4: foreign } });
    node.layout = layout;
  });
  const [one, two] = [firstOf(mode), secondOf(mode)];

  /** How many steps lead from bundle one to bundle two. */
  const begin = async (): Promise<number> => {
    const { reconciler } = await node.start();
    await reconciler.put(one, false);
    const change = await reconciler.preview(two);
    return 'plan' in change ? stepsOf(change.plan).length : 0;
  };

  test.each([
    ['is not taken', false],
    ['is taken although the tool reports a failure', true],
  ])('whichever step %s, the node ends as it began', async (_title, lies) => {
    const steps = await begin();
    expect(steps).toBeGreaterThan(4);
    const before = await everything();
    let late = 0;
    for (let failing = 0; failing < steps; failing++) {
      const kernel = failingKernel(node.kernel, { fails: (index) => index === failing, lies });
      const { reconciler, journal } = await node.start({}, { kernel });
      const outcome = await reconciler.put(two, true);
      // After the commit record the change cannot be rolled back; it is finished.
      const isLate = journal.active?.number !== 1;
      if (isLate) late++;
      expect(outcome.kind).toBe(isLate ? 'confirmed' : 'rolled-back');
      if (isLate) await reconciler.put(one, true);
      expect(await everything()).toBe(before);
    }
    expect(late > 0).toBe(layout === 'tree');
  });

  test('halts the node when the kernel refuses every step from some step on, and the next process tries it again', async () => {
    const steps = await begin();
    const before = await everything();
    const version = (await node.start()).journal.active?.version;
    for (let failing = 1; failing < steps; failing++) {
      const kernel = failingKernel(node.kernel, { fails: (index) => index >= failing, lies: false });
      const { reconciler } = await node.start({}, { kernel });
      expect((await reconciler.put(two, true)).kind).toBe('held');
      const refusing = failingKernel(node.kernel, { fails: () => true, lies: false });
      const halted = await node.start({}, { kernel: refusing });
      for (const ending of [await halted.reconciler.recover(), await halted.reconciler.put(two, true)])
        expect(ending?.kind).toBe('held');
      expect(halted.journal.record.open?.recoveries).toBe(0);
      const next = await node.start();
      const byHand = async (): Promise<Outcome | undefined> => {
        const from = await next.journal.generation(next.journal.open?.from.number ?? -1);
        return from && next.reconciler.rollBackTo(from);
      };
      const ending = failing % 2 === 0 ? await next.reconciler.recover() : await byHand();
      expect(ending?.kind).toMatch(/^(?:rolled-back|confirmed)$/);
      if (next.journal.active?.version !== version) await next.reconciler.put(one, true);
      expect(next.journal.halted).toBeUndefined();
      expect(await everything()).toBe(before);
    }
  });

  test.each(['before', 'after'] as const)(
    'after a crash %s any call the next process ends on the old or the new rules',
    async (fault) => {
      await begin();
      const before = await everything();
      const others = foreignLinesIn(node);
      let seenNew = 0;
      for (let at = 0; ; at++) {
        const countdown = new Countdown(at, fault);
        const plain = await node.start();
        const journal = mortalJournal(plain.journal, countdown);
        const mortal = await node.start({}, { kernel: mortalKernel(node.kernel, countdown), journal });
        // The outcome of a crashed process is lost.
        await mortal.reconciler.put(two, true).catch(() => undefined);
        if (countdown.calls <= at) break;
        const next = await node.start();
        await next.reconciler.recover();
        await next.reconciler.repair();
        const now = await everything();
        expect(foreignLinesIn(node)).toBe(others);
        if (now === before) continue;
        seenNew++;
        expect(next.journal.active?.number).not.toBe(1);
        await next.reconciler.put(one, true);
        expect(await everything()).toBe(before);
      }
      expect(seenNew).toBeGreaterThan(0);
    },
  );

  test('halts the node after repeated crashes during recovery', async () => {
    await begin();
    const countdown = new Countdown(3, 'after');
    const plain = await node.start();
    const mortal = await node.start(
      {},
      { kernel: mortalKernel(node.kernel, countdown), journal: mortalJournal(plain.journal, countdown) },
    );
    await mortal.reconciler.put(two, true).catch(() => undefined);
    for (let tries = 0; tries < 5; tries++) {
      const dying = new Countdown(1, 'before');
      const history = (await node.start()).journal;
      const next = await node.start(
        {},
        { kernel: mortalKernel(node.kernel, dying), journal: mortalJournal(history, dying) },
      );
      await next.reconciler.recover().catch(() => undefined);
    }
    expect((await (await node.start()).reconciler.recover())?.kind).toBe('held');
  });
});
