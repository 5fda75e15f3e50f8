import { rmSync } from 'node:fs';
import { afterEach, expect, test } from 'vitest';
import type { Step } from '../../ports/kernel.ts';
import { Countdown, mortalJournal, mortalKernel } from '../../testing/faults.fixture.ts';
import { cartBundle, settledElements } from '../../testing/nftables.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';

let node: Scene = scene();
afterEach(() => node.end());

test('with a lost journal the table stays on the release that packets met by default, wherever a change was', async () => {
  for (let at = 0; at < 40; at++) {
    node = scene();
    await (await node.start()).reconciler.put(cartBundle([1, 2]), true);
    const countdown = new Countdown(at, 'after');
    const { journal } = await node.start();
    const ports = { kernel: mortalKernel(node.kernel, countdown), journal: mortalJournal(journal, countdown) };
    const first = await node.start({}, { ...ports, clock: steppingClock() });
    await first.reconciler.put(cartBundle([3]), true).catch(() => undefined);
    const served = (await node.kernel.nft.observe())?.elements.get('svc4')?.get('10.96.0.10 . 6 . 80');
    rmSync(`${node.directory}/journal`);
    const next = await node.start();
    await next.reconciler.recover();
    expect([at, next.journal.lost]).toEqual([at, undefined]);
    const { held, expected } = await settledElements(node.kernel, next.journal.active?.state);
    expect([at, held]).toEqual([at, expected]);
    expect((await node.kernel.nft.observe())?.elements.get('svc4')?.get('10.96.0.10 . 6 . 80')).toBe(served);
    node.end();
    if (countdown.calls <= at) return;
  }
});

test('after a crash between the commit and its late step the rest of the overlay goes, and the journal says that it is confirmed', async () => {
  node = scene();
  await (await node.start()).reconciler.put(cartBundle([1, 2]), true);
  const { journal } = await node.start();
  const countdown = new Countdown(Infinity, 'before');
  const kernel = mortalKernel(node.kernel, countdown);
  // The first call after the transaction that makes the release the default finds the process dead.
  const apply = async (step: Step): Promise<void> => {
    await kernel.apply(step);
    if (step.because === 'the release is the default') countdown.end();
  };
  const ports = { kernel: { ...kernel, apply }, journal: mortalJournal(journal, countdown), clock: steppingClock() };
  const first = await node.start({}, ports);
  await first.reconciler.put(cartBundle([3]), true).catch(() => undefined);
  const sizes = async (): Promise<readonly unknown[]> => {
    const observed = await node.kernel.nft.observe();
    return ['trial4', 'tkey4', 'tsvc4'].map((set) => observed?.elements.get(set)?.size);
  };
  expect(await sizes()).toEqual([0, 0, 1]);
  const next = await node.start();
  expect(next.journal.open).toMatchObject({ phase: 'committed' });
  await next.reconciler.recover();
  expect([next.journal.open, next.journal.record.history.at(-1)?.what]).toEqual([undefined, 'confirmed']);
  const { held, expected } = await settledElements(node.kernel, next.journal.active?.state);
  expect(held).toEqual(expected);
});
