// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { minorsOfTier, newest } from './binaries.ts';
import { drawCluster, itemsOf, withoutOpenRange } from './clusters.ts';
import { differences, readSaved } from './compare.ts';
import { Coverage } from './coverage.ts';
import { type ParityNodes, withNodes } from './nodes.ts';
import { type AnswerDifference, differencesOf, Examiner, printDifference, unevenness } from './outcomes.ts';
import { needPrograms } from './programs.ts';
import { questionsOf } from './questions.ts';
import { RunCount } from './runs.ts';
import { type ProxySetting, settings } from './settings.ts';

/** The real kube-proxy as reference: both programs get the same cluster; their rules, and the outcomes of packets, are compared. */

const services = 12;
/** Above it chance is excluded. */
const mostUneven = 5;

describe.each(minorsOfTier)('kube-proxy %s', (minor) => {
  const count = atTier({ quick: 1, test: 2, all: minor >= newest ? 30 : 10, soak: 300 });
  const ofVersion = settings.filter(({ since = '1.28' }) => since <= minor);
  const clusters = Array.from({ length: count }, (_, index) => {
    const setting = ofVersion[index % ofVersion.length] as ProxySetting;
    return { index, setting, title: setting.title };
  });
  const coverage = new Coverage();
  const programs = needPrograms(minor);
  const run = new RunCount(minor, { mode: 'iptables', what: 'clusters' });
  afterAll(() => {
    console.log(`Questions to kube-proxy ${minor}, and of Sluice in both layouts:\n${coverage.toString()}`);
    run.write(count);
  });

  test.for(clusters)(
    'cluster $index, $title: flat is chain for chain the same, every packet has the same outcome',
    { timeout: 180_000 },
    async ({ index, setting }) => {
      const drawn = itemsOf(drawCluster(services, randomOf(seed + index)));
      // Until 1.34 a source range of /0 has chains that let all sources in.
      const cluster = minor < '1.34' ? drawn.map(withoutOpenRange) : drawn;
      await withNodes(programs(), setting, async ({ theirs, ours, put }) => {
        await put(cluster);
        const [flat] = ours;
        const [saved, own] = [await theirs.saved(), await flat?.node.saved()];
        const unlike = (['IPv4', 'IPv6'] as const).flatMap((family) =>
          differences(readSaved(saved[family]), readSaved(own?.[family] ?? '')),
        );
        const known = setting.unlike ?? [];
        const open = unlike.filter((one) => !known.includes(one.split('\n', 1)[0] as string));
        expect.soft(open).toEqual([]);
        const questions = questionsOf(cluster);
        const judge = new Examiner(theirs.node);
        const answers = await judge.ask(questions);
        coverage.note(questions, answers);
        const examined = ours.map(({ node }) => new Examiner(node));
        let unnamed = open.length;
        for (const node of examined) {
          const found = await differencesOf(judge, node, questions, answers);
          unnamed += found.differences.length;
          expect.soft(found.differences.slice(0, 20).map(printDifference), node.node.host.name).toEqual([]);
          expect.soft(unevenness(questions, found.ours), `shares of ${node.node.host.name}`).toBeLessThan(mostUneven);
        }
        run.note([judge, ...examined], unnamed);
      });
    },
  );
});

/** Rules that are removed from Sluice's, and the difference that the comparison has to find then. */
const harms: readonly (readonly [harm: string, command: string, isSeen: (difference: AnswerDifference) => boolean])[] =
  [
    [
      'the drop of invalid packets',
      'iptables-nft -D KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
      ({ question: { frontend } }) => frontend === 'invalid packet',
    ],
    [
      'the first Service',
      "iptables-nft-save -t nat | sed -n '/^-A KUBE-SERVICES .* cluster IP/{s/^-A/-t nat -D/p;q}' | xargs iptables-nft",
      ({ question: { frontend } }) => frontend === 'cluster IP',
    ],
    [
      'the affinity checks of endpoints',
      "ip6tables-nft-save -t nat | sed -n '/--rcheck/s/^-A/-t nat -D/p' | xargs -L 1 ip6tables-nft",
      ({ question: { stays } }) => stays,
    ],
    [
      'masquerading',
      'iptables-nft -t nat -F KUBE-POSTROUTING',
      ({ theirs, ours }) =>
        [...theirs.keys()].some((words) => words.includes(' as ')) &&
        [...ours.keys()].every((words) => !words.includes(' as ')),
    ],
  ];

describe('the comparison', () => {
  const programs = needPrograms();
  test('finds removed rules', { timeout: 300_000 }, async () => {
    const cluster = itemsOf(drawCluster(services, randomOf(seed)));
    const use = async ({ theirs, ours, put }: ParityNodes): Promise<void> => {
      await put(cluster);
      const [judge, questions] = [new Examiner(theirs.node), questionsOf(cluster)];
      const [flat] = ours as readonly [(typeof ours)[0]];
      const examined = new Examiner(flat.node);
      const answers = await judge.ask(questions);
      for (const [harm, command, isSeen] of harms) {
        await flat.node.host.run(['/bin/sh', '-c', command]);
        const { differences: found } = await differencesOf(judge, examined, questions, answers);
        expect([harm, found.some(isSeen)]).toEqual([harm, true]);
      }
    };
    await withNodes(programs(), settings[0], use, ['flat']);
  });
});
