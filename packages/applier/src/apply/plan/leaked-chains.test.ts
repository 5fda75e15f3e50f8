import { rmSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { slotBytes } from '../../state/slots.ts';
import type { Probes } from '../../ports/probes.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

const families = ['ipv4', 'ipv6'];
const one = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3] }, families });
const two = sampleBundle({ services: { 'shop/web': [4, 5], 'shop/cart': [], 'shop/new': [6] }, families });

let node: Scene;
beforeEach(() => {
  node = scene();
  node.layout = 'tree';
});
afterEach(() => node.end());

const rules = (): string => `${node.kernel.save('ipv4')}${node.kernel.save('ipv6')}`;

/** A process that crashed while `two` was in probation. */
async function leaveOnProbation(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const once = (): Promise<never> => {
    resolve();
    return new Promise(() => undefined);
  };
  const probes: Probes = { policies: [], intervalMs: 1000, once, untilVerdict: async () => [] };
  void (await node.start({}, { probes })).reconciler.put(two, false);
  await promise;
}

/** The store loses the generation that an open change leads to, or that it comes from. */
async function lose(which: 'from' | 'to'): Promise<void> {
  const { open } = (await node.start()).journal.record;
  for (const folder of ['store', 'copies'])
    rmSync(`${node.directory}/${folder}/${open?.[which].manifest}`, { force: true });
}

test('leaves no chain of an unreadable release after its rollback', async () => {
  await (await node.start()).reconciler.put(one, false);
  const confirmed = rules();
  await leaveOnProbation();
  expect(rules()).toContain('shop/new');
  await lose('to');
  const { reconciler } = await node.start();
  expect((await reconciler.recover())?.kind).toBe('rolled-back');
  expect(rules()).toBe(confirmed);
  expect((await (await node.start()).reconciler.put(two, true)).kind, 'no chain shuts a bundle out').toBe('confirmed');
});

test('leaves no chain of an unreadable previous generation after a commit', async () => {
  const { reconciler } = await node.start();
  await reconciler.put(one, false);
  await leaveOnProbation();
  await (await node.start()).journal.commit();
  await lose('from');
  expect((await (await node.start()).reconciler.recover())?.kind).toBe('confirmed');
  const finished = rules();
  node.kernel.reboot();
  await (await node.start()).reconciler.repair();
  expect(finished).toBe(rules());
});

test('keeps chains that foreign rules lead to, and foreign chains with similar names', async () => {
  await (await node.start()).reconciler.put(one, false);
  await leaveOnProbation();
  const fresh = /^-A (\S+) .*10\.244\.0\.7:8080$/m.exec(node.kernel.save('ipv4'))?.[1] ?? '';
  const others = `:CNI-X - [0:0]\n:SLU-CUSTOM.ab - [0:0]\n:SLUICE-NOTES.me - [0:0]\n-A CNI-X -j ${fresh}\n`;
  node.kernel.load('ipv4', `*nat\n${others}COMMIT\n`);
  await lose('to');
  await (await node.start()).reconciler.recover();
  const left = node.kernel.save('ipv4');
  for (const name of ['CNI-X', 'SLU-CUSTOM.ab', 'SLUICE-NOTES.me', fresh]) expect(left).toContain(`:${name} -`);
  expect(left).toContain(`-A CNI-X -j ${fresh}\n`);
});

test('removes leaked chains on cleanup, during a change and later', async () => {
  const before = rules();
  await (await node.start()).reconciler.put(one, false);
  const stray = ':SLU-SVC-AAAAAAAAAAAAAAAA.0z - [0:0]\n:SLUICE-T-ABCDEFGHIJKLMNOP.7a - [0:0]\n';
  node.kernel.load('ipv6', `*nat\n${stray}-A SLUICE-T-ABCDEFGHIJKLMNOP.7a -j SLU-SVC-AAAAAAAAAAAAAAAA.0z\nCOMMIT\n`);
  await (await node.start()).reconciler.cleanup();
  expect(rules()).toBe(before);
  await (await node.start()).reconciler.put(one, false);
  await leaveOnProbation();
  await lose('to');
  await (await node.start()).reconciler.cleanup();
  expect(rules()).toBe(before);
});

test('removes the chains of an unreadable release in probation when the journal is lost', async () => {
  await (await node.start()).reconciler.put(one, false);
  const confirmed = rules();
  await leaveOnProbation();
  await lose('to');
  writeFileSync(`${node.directory}/journal`, 'x'.repeat(2 * slotBytes));
  expect((await (await node.start()).reconciler.recover())?.kind).toBe('rolled-back');
  expect(rules()).toBe(confirmed);
});
