// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { kubeProxy, minorsOfTier, newest, wireProgram } from './binaries.ts';
import type { Built } from './build.ts';
import { drawCluster, itemsOf, withoutEverybody } from './clusters.ts';
import { differences, readSaved } from './compare.ts';
import { Coverage } from './coverage.ts';
import { withNodes } from './nodes.ts';
import { differencesOf, Examiner, tell, unevenness } from './outcomes.ts';
import { questionsOf } from './questions.ts';
import { type Setting, settings } from './settings.ts';

/** The real kube-proxy as judge: the same cluster for both, the rules that they load, and what becomes of packets there. */

const services = 12;
/** Above it chance is no cause. */
const mostUneven = 5;

describe.each(minorsOfTier)('kube-proxy %s', (minor) => {
  const count = atTier({ quick: 1, test: 2, all: minor === newest ? 30 : 10, soak: 300 });
  const ofVersion = settings.filter(({ since = '1.28' }) => since <= minor);
  const clusters = Array.from({ length: count }, (_, index) => {
    const setting = ofVersion[index % ofVersion.length] as Setting;
    return { index, setting, title: setting.title };
  });
  const coverage = new Coverage();
  let binary: Built;
  let wire: Built;
  beforeAll(async () => {
    [binary, wire] = [await kubeProxy(minor), await wireProgram()];
  }, 3_600_000);
  beforeEach((context) => {
    needKernel(context);
    needBackend(context, 'nft');
    for (const built of [binary, wire]) if ('lack' in built) context.skip(built.lack);
  });
  afterAll(() => console.log(`Asked of kube-proxy ${minor}, and of Sluice in both layouts:\n${coverage.toString()}`));

  test.for(clusters)(
    'cluster $index, $title: flat is chain for chain the same, every packet ends alike',
    { timeout: 180_000 },
    async ({ index, setting }) => {
      const drawn = itemsOf(drawCluster(services, randomOf(seed + index)));
      // Until 1.34 a source range of everybody has chains that let everybody in.
      const cluster = minor < '1.34' ? drawn.map(withoutEverybody) : drawn;
      const programs = { minor, kubeProxy: pathOf(binary), wire: pathOf(wire) };
      await withNodes(programs, setting, async ({ theirs, ours, put }) => {
        await put(cluster);
        const [flat] = ours;
        const [saved, own] = [await theirs.saved(), await flat?.saved()];
        const unlike = (['IPv4', 'IPv6'] as const).flatMap((family) =>
          differences(readSaved(saved[family]), readSaved(own?.[family] ?? '')),
        );
        const known = setting.unlike ?? [];
        expect.soft(unlike.filter((one) => !known.includes(one.split('\n', 1)[0] as string))).toEqual([]);
        const questions = questionsOf(cluster);
        const judge = new Examiner(theirs);
        const answers = await judge.ask(questions);
        coverage.note(questions, answers);
        for (const node of ours) {
          const found = await differencesOf(judge, new Examiner(node), questions, answers);
          expect.soft(found.differences.slice(0, 20).map(tell), node.name).toEqual([]);
          expect.soft(unevenness(questions, found.ours), `shares of ${node.name}`).toBeLessThan(mostUneven);
        }
      });
    },
  );
});

const pathOf = (built: Built): string => ('path' in built ? built.path : '');
