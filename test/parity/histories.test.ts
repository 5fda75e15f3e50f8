// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { currentOfTier } from './binaries.ts';
import { drawCluster, itemsOf, redraw } from './clusters.ts';
import { Clients, printFault } from './flows.ts';
import { type ParityNodes, withNodes } from './nodes.ts';
import { differencesOf, Examiner, printDifference } from './outcomes.ts';
import { needPrograms } from './programs.ts';
import { questionsOf } from './questions.ts';
import { RunCount } from './runs.ts';
import { isOfVersion, ofVersion } from './modes.ts';
import { nftablesSettings, type ProxySetting, settings } from './settings.ts';
import type { Layout } from './sluice-node.ts';

/** Clusters that change: endpoints are added and removed, Services change their type; clients that outlive it keep their endpoints. */

const histories = atTier({ quick: 1, all: 6, soak: 30 });
const changes = 6;
const services = 12;
/** How long conntrack may remember a removed endpoint: `sluiced apply` exits after deleting the flows. */
const settlesWithinMs = 5_000;

/** A client of UDP outlives a change on a loaded machine, too: conntrack would forget it after 30 s. */
const patient = (setting: ProxySetting): ProxySetting => ({
  ...setting,
  commands: ['echo 600 >/proc/sys/net/netfilter/nf_conntrack_udp_timeout'],
});

const modes = [
  { mode: 'iptables', of: settings[0], layouts: ['flat', 'tree'] },
  { mode: 'nftables', of: nftablesSettings[0], layouts: ['tree'] },
] as const satisfies readonly {
  readonly mode: string;
  readonly of: ProxySetting;
  readonly layouts: readonly Layout[];
}[];
const runs = currentOfTier.flatMap((minor) => modes.map((one) => ({ ...one, minor })));

describe.each(runs)('kube-proxy $minor, mode $mode', ({ minor, mode, of, layouts }) => {
  const programs = needPrograms(minor);
  const run = new RunCount(minor, { mode, what: 'histories' });
  const setting = patient(of);
  /** Flows that kube-proxy itself leaves behind are reported, but do not excuse Sluice. */
  let leftByKubeProxy = 0;
  afterAll(() => {
    console.log(`Clients that kube-proxy ${minor} in mode ${mode} left with a removed endpoint: ${leftByKubeProxy}`);
    run.write(histories);
  });

  test.for(Array.from({ length: histories }, (_, index) => index))(
    'history %i: packets end as with kube-proxy after each change, and clients leave an endpoint only when it is removed',
    { timeout: 600_000 },
    async (index) => {
      const random = randomOf(seed + 1_000 + index);
      let cluster = drawCluster(services, random);
      const use = async ({ theirs, ours, put }: ParityNodes): Promise<void> => {
        const judge = new Examiner(theirs.node);
        const examined = ours.map((node) => new Examiner(node.node));
        const sharesLists = mode === 'iptables';
        const theirClients = new Clients(judge, sharesLists);
        const ourClients = examined.map((one) => new Clients(one, sharesLists));
        let unnamed = 0;
        for (let step = 0; step <= changes; step++) {
          const items = itemsOf(cluster);
          await put(items);
          const questions = questionsOf(items);
          leftByKubeProxy += (await theirClients.send(questions, items, 0)).length;
          for (const clients of ourClients) {
            const faults = await clients.send(questions, items, settlesWithinMs);
            unnamed += faults.length;
            expect.soft(faults.map(printFault), `step ${step}, ${clients.name}`).toEqual([]);
          }
          const answers = await judge.ask(questions);
          for (const one of examined) {
            const { differences, explained } = await differencesOf(
              judge,
              one,
              questions,
              answers,
              isOfVersion(minor, mode),
            );
            unnamed += differences.length;
            for (const { name, explains } of ofVersion(minor, mode)) run.name(name, explained.filter(explains).length);
            const title = `step ${step}, ${one.node.host.name}`;
            expect.soft(differences.slice(0, 20).map(printDifference), title).toEqual([]);
          }
          for (const clients of [theirClients, ...ourClients]) await clients.remember(questions);
          cluster = redraw(cluster, random);
        }
        run.note([judge, ...examined], unnamed);
        for (const { name, moved } of [theirClients, ...ourClients])
          if (moved > 0) console.log(`${name}: ${moved} clients met the endpoint that another frontend had given them`);
      };
      await withNodes(programs(), setting, use, layouts);
    },
  );
});
