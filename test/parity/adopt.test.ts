// @module-tag all
import { afterEach, describe, expect, test } from 'vitest';
import { atTier } from '@sluice/testing';
import { cyclesOf, printCycle, tryCycle } from '../faults/moves.ts';
import { MovingNode } from '../faults/moving-node.ts';
import { Clients } from '../netns/clients.ts';
import { until } from '../netns/until.ts';
import { AdoptingNode, type SluiceMode, type Store } from './adopting-node.ts';
import { currentOfTier, type Minor, newest } from './binaries.ts';
import { needPrograms } from './programs.ts';

/**
 * The real kube-proxy moves to Sluice and back under load: observed, compared and adopted by the programs themselves, with nothing accepted.
 */

let adopting: AdoptingNode | undefined;
afterEach(async () => {
  await adopting?.close();
  adopting = undefined;
});

/** From kube-proxy's mode and store to Sluice's mode in that store. */
const moves: readonly (readonly [SluiceMode, Store, SluiceMode])[] = [
  ['iptables', 'nft', 'iptables'],
  ['iptables', 'nft', 'nftables'],
  ['iptables', 'legacy', 'iptables'],
  ['iptables', 'legacy', 'nftables'],
  ['nftables', 'nft', 'nftables'],
];

/** What comes after the newest release writes the same rules in mode iptables. */
const moved = currentOfTier.flatMap((minor) =>
  moves.flatMap((move) => (minor === newest || move[0] === 'nftables' ? [[minor, ...move] as const] : [])),
);

describe.each<readonly [Minor, SluiceMode, Store, SluiceMode]>(moved)(
  'kube-proxy %s in mode %s (store %s), Sluice in mode %s',
  (minor, from, store, to) => {
    const programs = needPrograms(minor);

    test('there and back, no new connection is lost', { timeout: 240_000 }, async () => {
      adopting = await AdoptingNode.start(programs(), from, store);
      const { node } = adopting;
      adopting.configure(store);
      await adopting.render(to);
      const before = await node.rules(store);
      const tables = await node.tables();
      const clients = await Clients.start(node);
      const there = await node.sluiced('adopt', '--manifest', node.manifest);
      expect(there).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('adopted: Sluice serves alone') });
      expect(await node.proxies()).toBe(0);
      expect(await node.rules(store)).not.toContain('KUBE-SVC-');
      expect(await node.tables()).not.toContain('table ip kube-proxy');
      const served = clients.served();
      await until('Sluice alone serves', async () => clients.served() > served + 100);
      const back = await node.sluiced('adopt', '--undo', '--wait', '30');
      expect(back).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('undone: kube-proxy serves') });
      expect(await node.proxies()).toBe(1);
      const again = clients.served();
      await until('kube-proxy alone serves', async () => clients.served() > again + 100);
      const sorted = (text: string): readonly string[] => text.split('\n').toSorted();
      expect(sorted(await node.rules(store))).toEqual(sorted(before));
      expect(await node.tables()).toEqual(tables);
      expect(clients.lost()).toEqual([]);
    });

    test('killed between two effects, there and back, no new connection is lost', { timeout: 900_000 }, async () => {
      adopting = await AdoptingNode.start(programs(), from, store);
      adopting.configure(store);
      await adopting.render(to);
      const move = { proxy: from === 'nftables' ? from : store, backend: store, mode: to };
      const moving = await MovingNode.on(adopting.node, move);
      const cycles = cyclesOf(await moving.record(false), await moving.record(true), atTier({ quick: 3, soak: 30 }));
      for (const cycle of cycles)
        expect({ cycle: printCycle(cycle), wrong: await tryCycle(moving, 'Sluice', cycle) }).toMatchObject({
          wrong: [],
        });
    });

    test('kube-proxy that restarts beneath Sluice, and takes itself to the front, loses nothing', {
      timeout: 240_000,
    }, async () => {
      adopting = await AdoptingNode.start(programs(), from, store);
      const { node } = adopting;
      adopting.configure(store);
      await adopting.render(to);
      const clients = await Clients.start(node);
      const front = ['adopt', '--daemonset', '--wait', '0'];
      expect(await node.sluiced(...front)).toMatchObject({
        exitCode: 1,
        stdout: expect.stringContaining('in front of kube-proxy, which still'),
      });
      await node.restartStaticPod();
      const served = clients.served();
      await until('connections go on', async () => clients.served() > served + 200);
      expect(await node.sluiced(...front)).toMatchObject({ exitCode: 1 });
      expect(await node.sluiced('adopt', '--manifest', node.manifest)).toMatchObject({ exitCode: 0 });
      expect(clients.lost()).toEqual([]);
    });
  },
);
