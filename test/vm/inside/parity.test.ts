// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { beforeAll, beforeEach, expect, test } from 'vitest';
import { kubeProxy, newest, wireProgram } from '../../parity/binaries.ts';
import type { Built } from '../../parity/build.ts';
import { drawCluster, itemsOf } from '../../parity/clusters.ts';
import { differences, readSaved } from '../../parity/compare.ts';
import { withNodes } from '../../parity/nodes.ts';
import { differencesOf, Examiner, tell } from '../../parity/outcomes.ts';
import { questionsOf } from '../../parity/questions.ts';
import type { Setting } from '../../parity/settings.ts';

/** The real kube-proxy as judge of mode ipvs: virtual servers, sets, rules, and what becomes of packets. */

const clusters = atTier({ quick: 1, all: 3, soak: 30 });
const setting: Setting = { title: 'mode ipvs', config: { mode: 'ipvs', ipvs: { scheduler: 'rr' } } };

let binary: Built;
let wire: Built;
beforeAll(async () => {
  [binary, wire] = [await kubeProxy(), await wireProgram()];
});
beforeEach((context) => {
  for (const built of [binary, wire]) if ('lack' in built) context.skip(built.lack);
});

test.for(Array.from({ length: clusters }, (_, index) => index))(
  'cluster %i: kube-proxy and sluiced load the same, and packets end alike',
  { timeout: 900_000 },
  async (index) => {
    const cluster = itemsOf(drawCluster(8, randomOf(seed + index)));
    const programs = { minor: newest, kubeProxy: pathOf(binary), wire: pathOf(wire) };
    const since = (t: number): string => `${((performance.now() - t) / 1000).toFixed(0)} s`;
    await withNodes(
      programs,
      setting,
      async ({ theirs, ours: [node], put }) => {
        let t = performance.now();
        await put(cluster);
        console.log(`guest: put ${since(t)}`);
        t = performance.now();
        if (node === undefined) throw new Error('no node');
        for (const tool of [
          ['/usr/sbin/ipvsadm', '-Sn'],
          ['/usr/sbin/ipset', 'save'],
          ['/usr/sbin/iptables-nft-save'],
          ['/usr/sbin/ip6tables-nft-save'],
          ['ip', 'addr', 'show', 'dev', 'kube-ipvs0'],
        ]) {
          console.log('guest: ' + tool.join(' '));
          console.log((await theirs.node.host.run(tool)).replaceAll(/^/gm, 'guest: < '));
          console.log((await node.node.host.run(tool)).replaceAll(/^/gm, 'guest: > '));
        }
        const questions = questionsOf(cluster);
        const judge = new Examiner(theirs);
        const answers = await judge.ask(questions);
        const found = await differencesOf(judge, new Examiner(node), questions, answers);
        console.log(`guest: asked ${since(t)} ${questions.length} ${found.differences.length}`);
        expect.soft(found.differences.slice(0, 60).map(tell), node.name).toEqual([]);
        const [saved, own] = [await theirs.saved(), await node.saved()];
        for (const family of ['IPv4', 'IPv6'] as const)
          expect.soft(differences(readSaved(saved[family]), readSaved(own[family]))).toEqual([]);
      },
      ['flat'],
    );
  },
);

const pathOf = (built: Built): string => ('path' in built ? built.path : '');
