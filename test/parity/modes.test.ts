// @module-tag all
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atTier, randomOf, seed } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { currentOfTier } from './binaries.ts';
import { drawCluster, itemsOf } from './clusters.ts';
import { KubeProxyNode } from './kube-proxy-node.ts';
import { betweenModes } from './modes.ts';
import { type AnswerDifference, differencesOf, Examiner, printDifference } from './outcomes.ts';
import { needPrograms } from './programs.ts';
import { questionsOf } from './questions.ts';

/** Packets in kube-proxy's own modes: the differences between the modes are listed, and complete. */

const clusters = atTier({ quick: 3, all: 8, soak: 80 });

describe.each(currentOfTier)('kube-proxy %s', (minor) => {
  const programs = needPrograms(minor);
  const listed = betweenModes(minor);
  const isListed = (difference: AnswerDifference): boolean => listed.some(({ explains }) => explains(difference));

  test('mode nftables differs from mode iptables as listed, and in nothing else', { timeout: 600_000 }, async () => {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-parity-'));
    const { kubeProxy, wire } = programs();
    const start = (mode: string): Promise<KubeProxyNode> =>
      KubeProxyNode.start(kubeProxy, wire, { title: mode, config: { mode } }, join(dir, mode));
    const [nftables, iptables] = [await start('nftables'), await start('iptables')];
    const [judge, examined] = [new Examiner(nftables.node), new Examiner(iptables.node)];
    try {
      const [explained, unexplained]: [AnswerDifference[], AnswerDifference[]] = [[], []];
      for (let index = 0; index < clusters; index++) {
        const cluster = itemsOf(drawCluster(12, randomOf(seed + index)));
        await Promise.all([nftables.put(cluster), iptables.put(cluster)]);
        const questions = questionsOf(cluster);
        const answers = await judge.ask(questions);
        const found = await differencesOf(judge, examined, questions, answers, isListed);
        explained.push(...found.explained);
        unexplained.push(...found.differences);
      }
      expect(unexplained.slice(0, 20).map(printDifference)).toEqual([]);
      const idle = listed.filter(({ explains }) => !explained.some(explains)).map(({ name }) => name);
      expect(idle, 'listed, and never observed').toEqual([]);
    } finally {
      await Promise.all([nftables.close(), iptables.close()]);
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
