// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { currentOfTier } from './binaries.ts';
import { drawCluster, itemsOf } from './clusters.ts';
import { Coverage } from './coverage.ts';
import { isOfVersion, ofVersion } from './modes.ts';
import { withNodes } from './nodes.ts';
import { differencesOf, Examiner, printDifference, unevenness } from './outcomes.ts';
import { needPrograms } from './programs.ts';
import { questionsOf } from './questions.ts';
import { RunCount } from './runs.ts';
import { nftablesSettings, type ProxySetting } from './settings.ts';

/** Mode nftables of the real kube-proxy and of Sluice: rules have nothing in common, and every packet has the same outcome. */

const services = 12;
/** Above it chance is excluded. */
const mostUneven = 5;

const count = atTier({ quick: 1, test: 2, all: 30, soak: 200 });
const clusters = Array.from({ length: count }, (_, index) => {
  const setting = nftablesSettings[index % nftablesSettings.length] as ProxySetting;
  return { index, setting, title: setting.title };
});

describe.each(currentOfTier)('kube-proxy %s', (minor) => {
  const coverage = new Coverage();
  const programs = needPrograms(minor);
  const run = new RunCount(minor, { mode: 'nftables', what: 'clusters' });
  afterAll(() => {
    console.log(`Questions to kube-proxy ${minor}, and of Sluice in mode nftables:\n${coverage.toString()}`);
    run.write(count);
  });

  test.for(clusters)(
    'cluster $index, $title: every packet has the same outcome in mode nftables',
    { timeout: 180_000 },
    async ({ index, setting }) => {
      const cluster = itemsOf(drawCluster(services, randomOf(seed + index)));
      await withNodes(
        programs(),
        setting,
        async ({ theirs, ours: [node], put }) => {
          await put(cluster);
          const questions = questionsOf(cluster);
          const judge = new Examiner(theirs.node);
          const answers = await judge.ask(questions);
          coverage.note(questions, answers);
          if (!node) throw new Error('there is no node');
          const examined = new Examiner(node.node);
          const found = await differencesOf(judge, examined, questions, answers, isOfVersion(minor, 'nftables'));
          for (const { name, explains } of ofVersion(minor, 'nftables'))
            run.name(name, found.explained.filter(explains).length);
          run.note([judge, examined], found.differences.length);
          expect.soft(found.differences.slice(0, 20).map(printDifference)).toEqual([]);
          expect.soft(unevenness(questions, found.ours)).toBeLessThan(mostUneven);
        },
        ['tree'],
      );
    },
  );
});
