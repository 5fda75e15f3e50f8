// @module-tag quick
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { planeOf } from '@sluice/netfilter';
import { bundleOf, ipvsState } from '../../move/adoption/moved-node.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { scene } from '../../testing/scene.fixture.ts';
import { nodePlaneOf, observeOtherPlanes } from './planes.ts';

test('where a half-done move was taken over without its state directory, generation 0 has rules and virtual servers', async () => {
  const node = scene();
  onTestFinished(() => node.end());
  node.layout = 'tree';
  const lost = await node.start();
  expect((await lost.reconciler.put(bundleOf('iptables'), false)).kind).toBe('confirmed');
  for (const step of ipvsState) await node.kernel.apply(step);
  for (const name of readdirSync(node.directory)) rmSync(join(node.directory, name), { recursive: true });

  const { reconciler, journal } = await node.start({ takeOver: true });
  const other = sampleBundle({ services: { 'shop/web': [1], 'shop/cart': [3] }, families: ['ipv4'] });
  expect((await reconciler.put(other, false)).kind).toBe('confirmed');
  const before = await journal.generation(0);
  expect(before && (await reconciler.rollBackTo(before)).kind).toBe('confirmed');

  const { state } = journal.active!;
  expect(nodePlaneOf(state).name).toBe('tree');
  // Changes of endpoints and conntrack entries are read from the same plane.
  expect(planeOf(state).mode).toBe('iptables');
  expect(planeOf(state).isSeenByNat).toBe(true);
  expect([...((await observeOtherPlanes(state, node.kernel)).servers?.keys() ?? [])]).toEqual(['10.96.0.11:80/TCP']);
  const text = (name: string): string => readFileSync(join(node.directory, 'current', name), 'utf8');
  expect(text('iptables.rules')).toContain('SLUICE-SERVICES');
  expect(text('ipvs.rules')).toContain('-a -t 10.96.0.11:80 -r 10.244.0.2:8080');
  expect(text('ipset.rules')).toContain('10.96.0.11,tcp:80');
  expect(text('addresses.batch')).toContain('10.96.0.11/32');
});
