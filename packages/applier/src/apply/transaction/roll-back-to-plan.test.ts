import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { StateError } from '../../state/state-error.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { planRollbackTo, type RollbackToPlan } from './roll-back-to.ts';

let node: Scene;
beforeEach(() => {
  node = scene();
});
afterEach(() => node.end());

describe.each(dataPlanes)('layout $layout, mode $mode', ({ layout, mode }) => {
  beforeEach(() => void (node.layout = layout));
  /** The names of Services in a plan: virtual servers and the table of mode nftables know addresses. */
  const names =
    mode !== 'iptables'
      ? { web: '10.96.0.11:80/TCP', was: '10.96.0.13:80/TCP', new: '10.96.0.14:80/TCP' }
      : { web: 'shop/web', was: 'shop/was', new: 'shop/new' };
  const then = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [50], 'shop/was': [9] }, mode });
  /** Both endpoints of web differ, cart's is the same, one Service is removed and one added. */
  const now = sampleBundle({
    services: { 'shop/web': [7, 8], 'shop/cart': [50], 'shop/was': undefined, 'shop/new': [5] },
    mode,
  });

  async function planned(keepsNewest: boolean): Promise<RollbackToPlan> {
    const { reconciler, journal } = await node.start();
    for (const files of [then, now]) expect(await reconciler.put(files, true)).toMatchObject({ kind: 'confirmed' });
    const old = await journal.generation(1);
    return planRollbackTo(journal.active, old!, keepsNewest);
  }

  const endpoints = (): readonly number[] => endpointNumbers(node.kernel);

  test('keeps the newest endpoints, and restores a removed Service with its old ones', async () => {
    const plan = await planned(true);
    expect(plan).toMatchObject({ services: { go: [names.new], come: [names.was] }, keepsNewest: true, changes: [] });
    const { reconciler, journal } = await node.start();
    const stored = await journal.generation(1);
    expect(await reconciler.rollBackTo(plan.target, { stored: stored! })).toMatchObject({ kind: 'confirmed' });
    expect(endpoints()).toEqual([7, 8, 9, 50]);
    const next = await node.start();
    expect(next.journal.active).toMatchObject({ number: 1, revision: 1, version: plan.target.version });
    expect(await next.reconciler.repair(), 'the journal equals the kernel').toBe(0);
  });

  test('restores the whole generation with the old endpoints', async () => {
    const plan = await planned(false);
    expect(plan.changes.map(({ service, after }) => [service, after])).toEqual([
      [names.web, ['10.244.0.2:8080', '10.244.0.3:8080']],
    ]);
    const { reconciler } = await node.start();
    expect(await reconciler.rollBackTo(plan.target)).toMatchObject({ kind: 'confirmed' });
    expect(endpoints()).toEqual([1, 2, 9, 50]);
  });

  test('keeps the stored generation on a disk without room for the newest endpoints', async () => {
    const { target } = await planned(true);
    const { journal, reconciler: _ } = await node.start();
    const stored = await journal.generation(1);
    const choose = journal.choose.bind(journal);
    const full = new StateError('NODE_STATE_INVALID', 'no space left', 'make room');
    journal.choose = async (one) => (one === target ? Promise.reject(full) : choose(one));
    const { reconciler } = await node.start({}, { journal });
    const outcome = await reconciler.rollBackTo(target, { stored: stored! });
    expect(outcome).toMatchObject({
      kind: 'confirmed',
      unwritten: expect.stringContaining('no room for the newest endpoints'),
    });
    expect(endpoints(), 'the kernel has the newest').toEqual([7, 8, 9, 50]);
    expect((await node.start()).journal.active).toMatchObject({ number: 1, revision: 0 });
  });

  test.each([
    ['fewer endpoints', [60, 61, 62]],
    ['other endpoints', [90]],
  ])('keeps the endpoints of a Service that has %s, independent of their old number', async (_title, edges) => {
    const many = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
    const { reconciler, journal } = await node.start();
    await reconciler.put(sampleBundle({ services: { 'shop/web': many, 'shop/was': [50] }, mode }), true);
    await reconciler.put(sampleBundle({ services: { 'shop/web': edges }, mode }), true);
    const plan = planRollbackTo(journal.active, (await journal.generation(1))!, true);
    expect(plan.changes).toEqual([]);
    await reconciler.rollBackTo(plan.target, { stored: (await journal.generation(1))! });
    expect(endpoints()).toEqual([50, ...edges]);
  });

  test('restores the old endpoints of a Service that has none now, and lists them', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(sampleBundle({ services: { 'shop/web': [1], 'shop/was': [50] }, mode }), true);
    await reconciler.put(sampleBundle({ services: { 'shop/web': [] }, mode }), true);
    const plan = planRollbackTo(journal.active, (await journal.generation(1))!, true);
    expect(plan).toMatchObject({ keepsNewest: true, changes: [{ service: names.web, before: [] }] });
  });

  test('uses the stored generation if the active one cannot be read', async () => {
    const { reconciler, journal } = await node.start();
    await reconciler.put(then, true);
    const old = await journal.generation(1);
    const plan = planRollbackTo(undefined, old!, true);
    expect(plan.target).toBe(old);
    expect(plan.services).toBeUndefined();
  });
});
