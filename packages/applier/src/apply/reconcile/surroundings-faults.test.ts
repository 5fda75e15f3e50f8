import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { FailureKind } from '../../ports/failure.ts';
import type { Kernel } from '../../ports/kernel.ts';
import type { DiskJournal } from '../../state/journal.ts';
import { dataPlanes } from '../../testing/data-plane.fixture.ts';
import { type Trouble, troubledKernel } from '../../testing/faults.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';
import { everythingIn, firstOf, foreign, secondOf } from './reconciler.fixture.ts';
import type { Reconciler } from './reconciler.ts';

/**
 * Tools that are away, hang, are killed or print something else, at each call from some call on: a good release is not quarantined, the node
 * is not halted, and when the trouble is over the release is confirmed without an operator.
 */

let node: Scene;
afterEach(() => node.end());

const surroundings = ['missing', 'hung', 'killed', 'busy', 'short', 'denied', 'garbled'] as const;

/** Puts a bundle in, as the daemon does; a read that fails is thrown, and retried at the next scan. */
const put = (reconciler: Reconciler, files: ReadonlyMap<string, string>): Promise<string> =>
  reconciler.put(files, false).then(
    (outcome) => outcome.kind,
    () => 'thrown',
  );

describe.each(dataPlanes)('in layout $layout, mode $mode', ({ layout, mode }) => {
  beforeEach(() => {
    node = scene({ rules: { ipv4: foreign } });
    node.layout = layout;
  });
  const [one, two] = [firstOf(mode), secondOf(mode)];

  const start = async (trouble: Trouble): Promise<{ reconciler: Reconciler; journal: DiskJournal }> =>
    node.start({}, { kernel: troubledKernel(node.kernel, trouble), clock: steppingClock() });

  /** The two ends of a release: one that a switch, or the same kernel, confirms; one whose probes fail. */
  test.each([
    ['of a good release', true],
    ['of a release that fails its probes', false],
  ])('heals from each kind of trouble at each call %s', { timeout: 120_000 }, async (_title, isGood) => {
    const endings = new Set<string>();
    const calls = new Set<string>();
    const heal = async (from: number, length: number, kind: FailureKind, restarts: boolean): Promise<boolean> => {
      node.end();
      node = scene({ rules: { ipv4: foreign } });
      node.layout = layout;
      await (await node.start()).reconciler.put(one, false);
      const before = await everythingIn(node);
      let met = 0;
      let isOver = false;
      const trouble: Trouble = (index, call) => {
        if (isOver || index < from || index >= from + length) return undefined;
        met += 1;
        calls.add(call);
        return kind;
      };
      let rounds = 0;
      node.health = () => isGood || ++rounds < 2;
      let { reconciler, journal } = await start(trouble);
      const where = `${kind} from call ${from}`;
      const ending = await put(reconciler, two);
      endings.add(ending);
      const version = journal.record.open?.version ?? '';
      expect([where, journal.halted, isGood && journal.quarantined(version)]).toEqual([
        where,
        undefined,
        isGood && undefined,
      ]);
      isOver = true;
      node.health = () => true;
      if (restarts) ({ reconciler, journal } = await start(trouble));
      await reconciler.repair();
      expect([where, journal.open, journal.halted]).toEqual([where, undefined, undefined]);
      const outcome = await reconciler.put(two, false);
      const may = isGood ? /^(?:confirmed|same)$/ : /^(?:confirmed|same|refused)$/;
      expect([where, outcome.kind]).toEqual([where, expect.stringMatching(may)]);
      const isOld = outcome.kind === 'refused';
      expect([where, isOld && (await everythingIn(node)) !== before]).toEqual([where, false]);
      expect([where, await reconciler.differences()]).toEqual([where, []]);
      return met > 0;
    };
    let tries = 0;
    for (let from = 0; ; from++) {
      const kind = surroundings[from % surroundings.length] as FailureKind;
      const wasMet = await heal(from, Infinity, kind, from % 2 === 0);
      await heal(from, 1, kind, false);
      if (!wasMet) break;
      tries += 1;
    }
    expect(tries).toBeGreaterThanOrEqual(10);
    expect(calls.size).toBeGreaterThan(mode === 'nftables' ? 4 : 3);
    expect([...endings]).toEqual(expect.arrayContaining(['pending', isGood ? 'confirmed' : 'rolled-back']));
  });

  test.each(surroundings)('tries a rollback again for as long as a tool is %s', async (kind) => {
    await (await node.start()).reconciler.put(one, false);
    const before = await everythingIn(node);
    let [isAway, hasFailed] = [false, false];
    const { reconciler, journal } = await start((_index, call) =>
      isAway || (hasFailed && call.startsWith('apply')) ? kind : undefined,
    );
    let rounds = 0;
    node.health = () => !(hasFailed = ++rounds > 1);
    expect(await put(reconciler, two)).toBe('pending');
    isAway = true;
    for (let look = 0; look < 30; look++) await expect(reconciler.repair()).rejects.toThrow(`it is ${kind}`);
    expect([journal.halted, journal.record.open?.recoveries]).toEqual([undefined, 0]);
    isAway = hasFailed = false;
    await reconciler.repair();
    expect([journal.open, await everythingIn(node)]).toEqual([undefined, before]);
    // The probes failed on rules that nothing else changed: that is remembered over the wait.
    expect(Object.values(journal.record.quarantined)).toEqual([expect.stringContaining('health failed')]);
  });

  test('does not quarantine for tools that fail again and again, and writes one entry for a row of tries', async () => {
    await (await node.start()).reconciler.put(one, false);
    let isBusy = true;
    const { reconciler, journal } = await start((_index, call) =>
      isBusy && call.startsWith('apply') ? 'busy' : undefined,
    );
    for (let attempt = 0; attempt < 10; attempt++) {
      const outcome = await reconciler.put(two, false);
      expect(outcome).toMatchObject({ kind: 'rolled-back', again: true });
    }
    expect(journal.record.history.filter(({ what }) => what === 'rolled-back')).toHaveLength(1);
    isBusy = false;
    expect((await reconciler.put(two, false)).kind).toBe('confirmed');
  });

  test('heals a node that an older version halted for a tool that was away', async () => {
    await (await node.start()).reconciler.put(one, false);
    const before = await everythingIn(node);
    let steps = 0;
    const { reconciler, journal } = await start((_index, call) =>
      (steps += call.startsWith('apply') ? 1 : 0) > 1 ? 'missing' : undefined,
    );
    expect(await put(reconciler, two)).toBe('pending');
    await journal.halt('health failed: web; the rollback failed: Cannot run nft -f: spawn /usr/sbin/nft ENOENT');
    const next = await node.start();
    expect(next.journal.halted).toContain('ENOENT');
    expect((await next.reconciler.recover())?.kind).toBe('rolled-back');
    expect([next.journal.halted, next.journal.open, await everythingIn(node)]).toEqual([undefined, undefined, before]);
    expect((await next.reconciler.put(two, false)).kind).toBe('confirmed');
  });

  test('a release is not to blame for what another program does to its rules during probation', async () => {
    await (await node.start()).reconciler.put(one, false);
    const kernel: Kernel = node.kernel;
    let probes = 0;
    const { reconciler } = await node.start({}, { kernel, clock: steppingClock() });
    const flush = async (): Promise<void> => {
      if (mode === 'nftables') node.kernel.nft.clear();
      else
        node.kernel.load(
          'ipv4',
          `*nat\n${node.kernel.save('ipv4').includes(':SLUICE-SERVICES') ? ':SLUICE-SERVICES - [0:0]\n' : ':KUBE-SERVICES - [0:0]\n'}COMMIT\n`,
        );
    };
    node.health = () => {
      if (++probes !== 2) return true;
      void flush();
      return false;
    };
    expect(await reconciler.put(two, false)).toMatchObject({ kind: 'rolled-back', again: true });
    expect((await reconciler.put(two, false)).kind).toBe('confirmed');
  });
});
