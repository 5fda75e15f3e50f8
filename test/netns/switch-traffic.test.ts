// @module-tag test
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { addPods, Clients } from './clients.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** New connections all the time while programs are switched: none is lost or misdirected, of changed and of unchanged Services. */

const applies = atTier({ quick: 10, all: 50, soak: 1_000 });

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

/** Endpoint n has the addresses 10.244.0.(n + 1) and fd00:10::n; Services have 10.96.0.11 and fd00:96::a, 10.96.0.12 and fd00:96::b. */
function put(web: readonly number[], mode: 'iptables' | 'nftables'): void {
  const services = { 'shop/web': web, 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
}

/** A number that grows with each finished change: endpoint updates are revisions of a generation. */
const confirmed = (): number => {
  const { open, current } = node.journal() ?? {};
  return open === null && current ? current.number * 1e6 + (current.revision ?? 0) : 0;
};

const ways = [
  { backend: 'nft', mode: 'iptables' },
  { backend: 'legacy', mode: 'iptables' },
  { backend: 'nft', mode: 'nftables' },
] as const;

describe.each(ways)('traffic under $backend, mode $mode', { timeout: 1_800_000 }, ({ backend, mode }) => {
  beforeEach((context) => needBackend(context, backend));

  test(`${applies} changes lose and misdirect no connection`, async () => {
    await addPods(node);
    node.writeConfig(backend);
    put([1], mode);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    const clients = await Clients.start(node);
    node.start();
    for (let count = 0; count < applies; count++) {
      const before = await until('the previous change is finished', async () => confirmed());
      put(count % 2 === 0 ? [2] : [1, 2].slice(0, 1 + (count % 3)), mode);
      await until(`change ${count} is confirmed`, async () => confirmed() > before);
    }
    expect(clients.lost()).toEqual([]);
    console.log(`${backend}, mode ${mode}: ${clients.served()} connections over ${applies} changes`);
  });
});
