// @module-tag test
import { rmSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { addPods, Clients } from './clients.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, plainPlanes, stores, until } from './sluiced-node.ts';

/** New connections all the time while programs are switched: none is lost or misdirected, of changed and of unchanged Services. */

const applies = atTier({ quick: 10, all: 50, soak: 1_000 });

withNode();

/**
 * Endpoint n has the addresses 10.244.0.(n + 1) and fd00:10::n; Services have 10.96.0.11 and fd00:96::a, 10.96.0.12 and fd00:96::b.
 * @param round of a further Service: a version that was rolled back is not applied again
 */
function put(web: readonly number[], mode: DataPlane['mode'], round?: number): void {
  const more = round === undefined ? {} : { [`shop/round-${round}`]: [1] };
  const services = { 'shop/web': web, 'shop/cart': [3], ...more };
  if (round !== undefined) rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
}

/** A number that grows with each finished change: endpoint updates are revisions of a generation. */
const confirmed = (): number => {
  const { open, current } = node.journal() ?? {};
  return open === null && current ? current.number * 1e6 + (current.revision ?? 0) : 0;
};

const planes = oneInTurn(plainPlanes, 'traffic');

describe.each(planes)('traffic under $backend, mode $mode', { timeout: 1_800_000 }, ({ backend, mode }) => {
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

const changesOfMode = atTier({ quick: 2, all: 10, soak: 200 });

const changing = oneInTurn(stores, 'change of mode');

describe.each(changing)('a change of mode on %s', { timeout: 1_800_000 }, (backend) => {
  beforeEach((context) => needBackend(context, backend));

  test(`${changesOfMode} times to mode nftables and back, by a release or a rollback, loses and misdirects no connection`, async () => {
    await addPods(node);
    node.writeConfig(backend);
    put([1], 'iptables');
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    const clients = await Clients.start(node);
    node.start();
    await until('the daemon answers', async () => node.get());
    const isIn = async (mode: DataPlane['mode']): Promise<boolean> =>
      ((await node.frontends()) === '') === (mode === 'iptables');
    const goBack = async (web: readonly number[], count: number): Promise<number | undefined> => {
      if (count % 2 === 0) return (await node.sluiced('rollback', '--yes')).exitCode;
      put(web, 'iptables', count);
      return 0;
    };
    for (let count = 0; count < changesOfMode; count++) {
      const web = [1 + (count % 2)];
      const before = confirmed();
      put(web, 'nftables', count);
      await until(
        `change ${count} to mode nftables is confirmed`,
        async () => confirmed() > before && (await isIn('nftables')),
      );
      expect(await goBack(web, count)).toBe(0);
      await until(`change ${count} back is confirmed`, async () => confirmed() > 0 && (await isIn('iptables')));
    }
    expect(clients.lost()).toEqual([]);
    console.log(`${backend}: ${clients.served()} connections over ${2 * changesOfMode} changes of mode`);
  });
});
