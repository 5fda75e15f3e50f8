// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { currentOfTier } from './binaries.ts';
import { drawCluster, itemsOf } from './clusters.ts';
import { Coverage } from './coverage.ts';
import { isOfVersion, ofVersion } from './modes.ts';
import { withNodes } from './nodes.ts';
import {
  type AnswerCounts,
  differencesOf,
  Examiner,
  isServed,
  printDifference,
  titleOf,
  unevenness,
} from './outcomes.ts';
import { needPrograms } from './programs.ts';
import { type Question, questionsOf } from './questions.ts';
import { RunCount } from './runs.ts';
import { localhostSettings, nftablesSettings, type ProxySetting } from './settings.ts';

/** Mode nftables of the real kube-proxy and of Sluice: rules have nothing in common, and every packet has the same outcome. */

const services = 12;
/** Above it chance is excluded. */
const mostUneven = 5;

/** Node ports that the table refuses on 127.0.0.1 where kube-proxy may listen, although endpoints serve clients from outside. */
function wronglyRefused(
  questions: readonly Question[],
  theirs: readonly AnswerCounts[],
  ours: readonly AnswerCounts[],
): readonly string[] {
  const all = (answers: readonly AnswerCounts[], at: number): readonly string[] => [...(answers[at]?.keys() ?? [])];
  const isAnswered = (at: number): boolean =>
    all(ours, at).every((words) => isServed(words) && !words.startsWith('node '));
  const served = new Set(
    questions.flatMap(({ frontend, from, about, family }, at) =>
      frontend === 'node port' && from === 'outside' && family === 'IPv4' && isAnswered(at) ? [about] : [],
    ),
  );
  return questions.flatMap((question, at) =>
    question.frontend === 'node port, loopback' &&
    question.target === '127.0.0.1' &&
    served.has(question.about) &&
    all(theirs, at).every((words) => words.startsWith('node ')) &&
    all(ours, at).includes('reject')
      ? [titleOf(question)]
      : [],
  );
}

const count = atTier({ quick: 1, test: 2, all: 30, soak: 200 });
const runs = currentOfTier.flatMap((minor) => [
  { minor, what: 'clusters', settings: nftablesSettings } as const,
  { minor, what: 'clusters with node ports on localhost', settings: localhostSettings } as const,
]);

describe.each(runs)('kube-proxy $minor, $what', ({ minor, what, settings }) => {
  const clusters = Array.from({ length: count }, (_, index) => {
    const setting = settings[index % settings.length] as ProxySetting;
    return { index, setting, title: setting.title };
  });
  const coverage = new Coverage();
  const programs = needPrograms(minor);
  const run = new RunCount(minor, { mode: 'nftables', what });
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
          expect.soft(wronglyRefused(questions, answers, found.ours)).toEqual([]);
          expect.soft(unevenness(questions, found.ours)).toBeLessThan(mostUneven);
        },
        ['tree'],
      );
    },
  );
});
