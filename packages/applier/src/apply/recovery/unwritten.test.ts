import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Generation } from '../../ports/journal.ts';
import { StateError } from '../../state/state-error.ts';
import { sampleBundle, type SampleServices } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers, kernelText } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { planRollbackTo } from '../transaction/roll-back-to.ts';

/** A rollback that cannot be written to the disk, and the same process afterwards. */

describe.each(dataPlanes.filter(({ layout }) => layout === 'tree'))('in mode $mode', ({ layout, mode }) => {
  let node: Scene;
  beforeEach(() => {
    node = scene();
    node.layout = layout;
  });
  afterEach(() => node.end());

  const services = (web: readonly number[], more: SampleServices) =>
    sampleBundle({ services: { 'shop/web': web, ...more }, mode });
  const rules = (): string => kernelText(node.kernel);

  /** Rolls back to generation 1, with the newest endpoints, over a disk that takes only some writes. */
  async function rolledBack(takes: (target: Generation, stored: Generation) => boolean) {
    const { reconciler, journal } = await node.start();
    for (const [web, more] of [
      [[1, 2], { 'shop/was': [9] }],
      [[7, 8], { 'shop/was': undefined, 'shop/new': [5] }],
      [[11, 12], { 'shop/was': undefined, 'shop/new': [5] }],
    ] as const)
      await reconciler.put(services(web, more), true);
    const left = journal.active!.version;
    const stored = (await journal.generation(1))!;
    const choose = journal.choose.bind(journal);
    const full = new StateError('NODE_STATE_INVALID', 'EROFS', 'make room');
    journal.choose = async (one) => (takes(one, stored) ? choose(one) : Promise.reject(full));
    journal.begin = () => Promise.reject(full);
    const { target } = planRollbackTo(journal.active, stored, true);
    expect(await reconciler.rollBackTo(target, { stored })).toHaveProperty('unwritten');
    return { reconciler, journal, left };
  }

  test.each([
    ['takes no write', () => false],
    ['has no room for the newest endpoints', (target: Generation, stored: Generation) => target === stored],
  ])('the daemon does not undo a rollback on a disk that %s', async (_title, takes) => {
    const { reconciler, journal, left } = await rolledBack(takes);
    const after = rules();
    expect(endpointNumbers(node.kernel)).toContain(11);
    expect(endpointNumbers(node.kernel)).not.toContain(5);
    expect(await reconciler.repair(), 'no drift for this process').toBe(0);
    expect(await reconciler.put(services([11, 12], { 'shop/was': undefined, 'shop/new': [5] }), false)).toMatchObject({
      kind: 'refused',
    });
    expect(rules()).toBe(after);
    expect(journal).toMatchObject({ active: { number: 1 }, halted: undefined });
    expect(journal.quarantined(left)).toBeDefined();
    expect(journal.record.history.filter(({ what }) => what === 'chosen')).toHaveLength(1);
  });

  test('records the rollback with the next successful write', async () => {
    const { journal } = await rolledBack(() => false);
    expect((await node.start()).journal.active?.number, 'the disk does not know').not.toBe(1);
    await journal.moved('nft');
    const { journal: next } = await node.start();
    expect(next.active).toMatchObject({ number: 1, revision: 0 });
  });
});
