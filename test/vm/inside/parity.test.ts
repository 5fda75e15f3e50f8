// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { expect, test } from 'vitest';
import type { Host } from '../../netns/cluster-host.ts';
import { drawCluster, itemsOf } from '../../parity/clusters.ts';
import { differences, readSaved } from '../../parity/compare.ts';
import { isOfFence } from '../../parity/fence.ts';
import { withNodes } from '../../parity/nodes.ts';
import { type AnswerDifference, differencesOf, endpointOf, Examiner, printDifference } from '../../parity/outcomes.ts';
import { needPrograms } from '../../parity/programs.ts';
import { questionsOf } from '../../parity/questions.ts';
import type { ProxySetting } from '../../parity/settings.ts';

/** Mode ipvs compared with the real kube-proxy: virtual servers, sets, bound addresses, rules, and the outcomes of packets. */

const clusters = atTier({ quick: 1, soak: 10 });
const services = 8;
const setting: ProxySetting = { title: 'mode ipvs', config: { mode: 'ipvs', ipvs: { scheduler: 'rr' } } };

const programs = needPrograms();

test.for(Array.from({ length: clusters }, (_, index) => index))(
  'cluster %i: kube-proxy and sluiced load the same in mode ipvs, and every packet has the same outcome',
  { timeout: 1_200_000 },
  async (index) => {
    const cluster = itemsOf(drawCluster(services, randomOf(seed + index)));
    await withNodes(
      programs(),
      setting,
      async ({ theirs, ours, put }) => {
        const [node] = ours as [(typeof ours)[0]];
        await put(cluster);
        const [left, right] = [await loaded(theirs.node.host), await loaded(node.node.host)];
        expect.soft(right.servers).toEqual(left.servers);
        expect.soft(right.entries).toEqual(left.entries);
        expect.soft(right.bound).toEqual(left.bound);
        const [saved, own] = [await theirs.saved(), await node.node.saved()];
        for (const family of ['IPv4', 'IPv6'] as const) {
          const [a, b] = [withoutIdle(saved[family], left.entries), withoutIdle(own[family], right.entries)];
          expect.soft(differences(readSaved(a), readSaved(b)), `rules of ${family}`).toEqual([]);
        }
        const questions = questionsOf(cluster);
        const judge = new Examiner(theirs.node);
        const answers = await judge.ask(questions);
        const { differences: found } = await differencesOf(
          judge,
          new Examiner(node.node),
          questions,
          answers,
          isBoundSource,
        );
        expect.soft(found.map(printDifference)).toEqual([]);
      },
      ['flat'],
    );
  },
);

/** The state of mode ipvs besides rules. Sorted, without the fence that marks the end of a change. */
interface LoadedRules {
  readonly servers: readonly string[];
  readonly entries: readonly string[];
  readonly bound: readonly string[];
}

async function loaded(host: Host): Promise<LoadedRules> {
  const lines = async (argv: readonly string[], form: RegExp): Promise<readonly string[]> =>
    (await host.run(argv))
      .split('\n')
      .flatMap((line) => form.exec(line)?.[1] ?? [])
      .filter((line) => !isOfFence(line))
      .toSorted();
  const servers = await lines(['/usr/sbin/ipvsadm', '-Sn'], /^(-.*?) *$/);
  const entries = await lines(['/usr/sbin/ipset', 'save'], /^add (.*?)(?: comment .*)?$/);
  return {
    servers,
    entries: entries.filter((entry) => isSeen(entry, servers)),
    bound: await lines(['/usr/sbin/ip', '-o', 'addr', 'show', 'dev', 'kube-ipvs0'], / inet6? (\S+)/),
  };
}

/** kube-proxy has an entry for hairpin connections of each endpoint of the node: without a real server for it no packet matches it. */
function isSeen(entry: string, servers: readonly string[]): boolean {
  const [, address, protocol, port] = /^KUBE-(?:6-)?LOOP-BACK (.+),(tcp|udp|sctp):(\d+),/.exec(entry) ?? [];
  if (address === undefined) return true;
  const real = ` -r ${address.includes(':') ? `[${address}]` : address}:${port} `;
  const start = { tcp: '-a -t ', udp: '-a -u ', sctp: '-a --sctp-service ' }[protocol as 'tcp' | 'udp' | 'sctp'];
  return servers.some((line) => line.startsWith(start) && line.includes(real));
}

/** Without rules for empty sets: kube-proxy writes them with the first entry, and no packet matches them. */
function withoutIdle(saved: string, entries: readonly string[]): string {
  const filled = new Set(entries.map((entry) => entry.split(' ', 1)[0]));
  return saved
    .split('\n')
    .filter((line) => {
      const [, set] = / --match-set (\S+)/.exec(line) ?? [];
      return set === undefined || filled.has(set);
    })
    .join('\n');
}

/**
 * In IPv6 the kernel may masquerade with one of kube-proxy's addresses on kube-ipvs0: pods see a cluster IP then.
 * `sluiced` binds them as deprecated, so that pods see the node's own address.
 */
function isBoundSource({ question: { family }, theirs, ours }: AnswerDifference): boolean {
  const [left, right] = [theirs, ours].map((answers) => [...new Set([...answers.keys()].map(endpointOf))].toSorted());
  return (
    family === 'IPv6' &&
    JSON.stringify(left) === JSON.stringify(right) &&
    [...theirs.keys()].some((words) => words.includes(' as fd00:10:96::'))
  );
}
