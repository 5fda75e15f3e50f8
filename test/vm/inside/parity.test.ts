// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import type { Host } from '../../netns/cluster-host.ts';
import { currentOfTier } from '../../parity/binaries.ts';
import { drawCluster, itemsOf } from '../../parity/clusters.ts';
import { differences, readSaved } from '../../parity/compare.ts';
import { isOfFence } from '../../parity/fence.ts';
import type { KubeProxyNode } from '../../parity/kube-proxy-node.ts';
import { withNodes } from '../../parity/nodes.ts';
import { type AnswerDifference, differencesOf, endpointOf, Examiner, printDifference } from '../../parity/outcomes.ts';
import { needPrograms } from '../../parity/programs.ts';
import { questionsOf } from '../../parity/questions.ts';
import { ipvsSetting } from '../../parity/recorded.ts';
import { RunCount } from '../../parity/runs.ts';
import type { SluiceNode } from '../../parity/sluice-node.ts';

/** Mode ipvs compared with the real kube-proxy: virtual servers, sets, bound addresses, rules, and the outcomes of packets. */

/** Each takes a minute beside nothing else. */
const count = atTier({ quick: 1, all: 4, soak: 30 });
/** `SLUICE_SHARD=0/3`: a third of them, as several guests share them. */
const [shard = 0, shards = 1] = (process.env['SLUICE_SHARD'] ?? '0/1').split('/').map(Number);
const clusters = Array.from({ length: count }, (_, index) => index).filter((index) => index % shards === shard);
const services = 8;

describe.each(currentOfTier)('kube-proxy %s', (minor) => {
  const programs = needPrograms(minor);
  const run = new RunCount(minor, { mode: 'ipvs', what: 'clusters' });
  afterAll(() => run.write(clusters.length));

  test.for(clusters)(
    'cluster %i: kube-proxy and sluiced load the same in mode ipvs, and every packet has the same outcome',
    { timeout: 1_200_000 },
    async (index) => {
      const cluster = itemsOf(drawCluster(services, randomOf(seed + index)));
      await withNodes(
        programs(),
        ipvsSetting,
        async ({ theirs, ours: [own], put }) => {
          if (!own) throw new Error('there is no node');
          await put(cluster);
          await expectSameState(theirs, own);
          const questions = questionsOf(cluster);
          const [judge, examined] = [new Examiner(theirs.node), new Examiner(own.node)];
          const answers = await judge.ask(questions);
          const found = await differencesOf(judge, examined, questions, answers, isBoundSource);
          run.name('pods see the address of the node, not a cluster IP (IPv6)', found.explained.length);
          run.note([judge, examined], found.differences.length);
          expect.soft(found.differences.map(printDifference)).toEqual([]);
        },
        ['flat'],
      );
    },
  );
});

/** Virtual servers, sets, bound addresses and rules of both nodes. */
async function expectSameState(theirs: KubeProxyNode, ours: SluiceNode): Promise<void> {
  const [left, right] = [await loaded(theirs.node.host), await loaded(ours.node.host)];
  expect.soft(right.servers).toEqual(left.servers);
  expect.soft(right.entries).toEqual(left.entries);
  expect.soft(right.bound).toEqual(left.bound);
  const [saved, own] = [await theirs.saved(), await ours.node.saved()];
  for (const family of ['IPv4', 'IPv6'] as const) {
    const [a, b] = [withoutIdle(saved[family], left.entries), withoutIdle(own[family], right.entries)];
    expect.soft([family, ...differences(readSaved(a), readSaved(b))]).toEqual([family]);
  }
}

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
