// @module-tag all
import { rmSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { AdoptNode, type ProxyMode } from './adopt-node.ts';
import { addPods, Clients } from './clients.ts';
import { needBackend, needKernel } from './privileges.ts';
import { until } from './until.ts';

/**
 * From a kube-proxy that mode iptables of a store cannot go in front of (`equal-priorities.test.ts`): refused, with the way, and the way loses
 * no connection, whichever program the kernel knew first.
 */

type Store = 'nft' | 'legacy';
type Mode = 'iptables' | 'nftables';
/** kube-proxy's mode and store; the mode and store to begin with; the store to end in, always in mode iptables. */
type Detour = readonly [kubeProxy: ProxyMode, via: Mode, at: Store, to: Store];
const detours: readonly Detour[] = [
  ['legacy', 'iptables', 'legacy', 'nft'],
  ['nft', 'iptables', 'nft', 'legacy'],
  ['nftables', 'nftables', 'nft', 'nft'],
  ['nftables', 'nftables', 'legacy', 'legacy'],
];

let node: AdoptNode;
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach((context) => needBackend(context, 'legacy'));
beforeEach(async () => {
  node = await AdoptNode.start();
  await addPods(node);
});
afterEach(() => node.close());

function put(mode: Mode): void {
  // A file of the other mode would make it no bundle.
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
}
const adopt = () => node.sluiced('adopt', '--manifest', node.manifest, '--without-parity');

describe.each(detours)(
  'kube-proxy in %s, by mode %s in store %s to mode iptables in store %s',
  (kubeProxy, via, at, to) => {
    test.each(['kube-proxy', 'the store'])('where %s was loaded first', { timeout: 120_000 }, async (first) => {
      // The first rule of a store registers its nat with the kernel, and it stays.
      const register = async (): Promise<void> => {
        for (const tool of ['iptables', 'ip6tables'])
          await node.tool([`${tool}-${to}`, '-t', 'nat', '-A', 'POSTROUTING', '-j', 'RETURN']);
      };
      if (first === 'the store') await register();
      await node.startKubeProxy(kubeProxy);
      if (first === 'kube-proxy') await register();
      const clients = await Clients.start(node);

      node.writeConfig(to);
      put('iptables');
      const refused = await adopt();
      expect(refused).toMatchObject({
        exitCode: 3,
        stderr: expect.stringContaining(kubeProxy === 'nftables' ? 'mode nftables' : `backend: ${at}`),
      });
      expect(node.journal()?.current ?? null).toBeNull();
      expect(await node.proxies()).not.toBe(0);

      node.writeConfig(at);
      put(via);
      expect(await adopt()).toMatchObject({ exitCode: 0, stderr: '' });
      const detour: (readonly string[])[] = [];
      if (via === 'nftables') detour.push(['apply', `${node.directory}/rendered`]);
      if (at !== to) detour.push(['backend', to]);
      put('iptables');
      for (const back of detour) expect(await node.sluiced(...back)).toMatchObject({ exitCode: 0 });
      node.writeConfig(to);
      expect(await node.rules(to)).toContain('SLUICE-SERVICES');
      expect(await node.rules(to === 'nft' ? 'legacy' : 'nft')).not.toContain('SLUICE-SERVICES');
      expect(await node.tables()).toEqual([]);
      const served = clients.served();
      await until('Sluice alone serves', async () => clients.served() > served + 50);

      // The undo finds what kube-proxy writes, also where its store is not Sluice's any more.
      expect(await node.sluiced('adopt', '--undo', '--wait', '30')).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining('undone: kube-proxy serves'),
      });
      const again = clients.served();
      await until('kube-proxy serves', async () => clients.served() > again + 50);
      expect(clients.lost()).toEqual([]);
    });
  },
);
