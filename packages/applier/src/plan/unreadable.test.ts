import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { UnreadableTables } from '../ports/kernel.ts';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { dataPlanes } from '../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../testing/scene.fixture.ts';

/** Another program has rules of nft in a table of iptables, so that iptables does not print it. */

const bundleOf = (...endpoints: readonly number[]): ReadonlyMap<string, string> =>
  sampleBundle({ services: { 'shop/web': endpoints } });

let node: Scene;
beforeEach(() => {
  node = scene();
});
afterEach(() => node.end());

/** The rules, also those of an unreadable table. */
function rules(): string {
  node.kernel.nftRule('ipv4', 'filter', false);
  const text = node.kernel.save('ipv4');
  node.kernel.nftRule('ipv4', 'filter', true);
  return text;
}

describe.each(dataPlanes.filter(({ mode }) => mode === 'iptables'))('layout $layout', ({ layout }) => {
  beforeEach(() => {
    node.layout = layout;
  });

  /** A node with a release. @returns its rules */
  async function released(): Promise<string> {
    const { reconciler } = await node.start();
    expect(await reconciler.put(bundleOf(1), true)).toMatchObject({ kind: 'confirmed' });
    return rules();
  }

  test('a table that becomes unreadable gets no rule, at any repair', async () => {
    const before = await released();
    const { reconciler } = await node.start();
    for (const round of [1, 2, 3]) {
      await expect(reconciler.repair(), `repair ${round}`).rejects.toThrow(/nft rules in table ip filter.* of its own/);
      expect(rules()).toBe(before);
    }
    node.kernel.nftRule('ipv4', 'filter', false);
    expect(await reconciler.repair()).toBe(0);
  });

  test('every other table is repaired still', async () => {
    const before = await released();
    const { reconciler } = await node.start();
    const entry = /^-A PREROUTING .*$/m.exec(before)?.[0].slice(3) ?? '';
    node.kernel.load('ipv4', `*nat\n-D ${entry}\nCOMMIT\n`);
    expect(await reconciler.repair()).toBeGreaterThan(0);
    expect(rules()).toBe(before);
    await expect(reconciler.repair()).rejects.toThrow(UnreadableTables);
  });

  test('a boot loads the rules although a table is unreadable, and only once', async () => {
    const before = await released();
    node.kernel.reboot();
    node.kernel.nftRule('ipv4', 'filter', true);
    const { reconciler } = await node.start();
    expect(await reconciler.repair()).toBeGreaterThan(0);
    expect(rules()).toBe(before);
    await expect(reconciler.repair()).rejects.toThrow(UnreadableTables);
    expect(rules()).toBe(before);
  });

  test('a boot of a halted node loads the rules, too', async () => {
    const before = await released();
    const { reconciler, journal } = await node.start();
    await journal.halt('the rollback failed');
    node.kernel.reboot();
    node.kernel.nftRule('ipv4', 'filter', true);
    expect(await reconciler.isBare()).toBe(true);
    await reconciler.load(journal.active as NonNullable<typeof journal.active>);
    expect(rules()).toBe(before);
  });

  test('a release waits, and changes nothing', async () => {
    const before = await released();
    const { reconciler, journal } = await node.start();
    await expect(reconciler.put(bundleOf(2, 3), true)).rejects.toThrow(UnreadableTables);
    expect(rules()).toBe(before);
    expect(journal.open).toBeUndefined();
    expect(journal.halted).toBeUndefined();
    node.kernel.nftRule('ipv4', 'filter', false);
    expect(await reconciler.put(bundleOf(2, 3), true)).toMatchObject({ kind: 'confirmed' });
  });

  test('a first release waits, too', async () => {
    node.kernel.nftRule('ipv4', 'filter', true);
    const before = rules();
    const { reconciler } = await node.start();
    await expect(reconciler.put(bundleOf(1), true)).rejects.toThrow(UnreadableTables);
    expect(rules()).toBe(before);
  });
});

test('mode nftables has a table of its own: an unreadable table of iptables does not matter', async () => {
  node.kernel.nftRule('ipv4', 'filter', true);
  const { reconciler } = await node.start();
  const files = sampleBundle({ services: { 'shop/web': [1] }, mode: 'nftables' });
  expect(await reconciler.put(files, true)).toMatchObject({ kind: 'confirmed' });
  expect(await reconciler.repair()).toBe(0);
});
