// @module-tag all
// @module-tag alone
import { atTier, randomOf, replay, seed } from '@sluice/testing';
import { expect, test } from 'vitest';
import type { RealCluster } from '../cluster.ts';
import { useRig } from '../rig.ts';
import { sluicedCommand, sluiceSystem } from '../systems.ts';
import { Acts } from './acts.ts';
import { Clients } from './clients.ts';
import { nodeOf, startWeb } from './web.ts';

/** Kills, link flaps and changes in an order that the seed says, while clients on two nodes connect all the time. */

const withCluster = useRig();
const lengthMs = atTier({ quick: 60_000, soak: 600_000 });

/** Pods of clients run there: the link of the third node fails. */
const served = ['node-1', 'node-2'];

/** What each node says of itself, where that is not that all is well. */
async function unwell(cluster: RealCluster): Promise<readonly string[]> {
  const said = [...cluster.nodes].map(async ([name, host]) => {
    const status = sluicedCommand('status', `${cluster.folder}/${name}/sluiced.yaml`);
    const { exitCode, stdout } = await host.exec(status);
    return exitCode === 0 ? [] : [`${name}: ${stdout}`];
  });
  return (await Promise.all(said)).flat();
}

test('after kills, flaps and changes in any order each node heals within a minute, and no connection is lost', {
  timeout: 2_400_000,
}, async () => {
  const random = randomOf(seed);
  process.stdout.write(`${replay('test/conformance/operations/chaos.test.ts')}\n`);
  const system = sluiceSystem({ mode: 'nftables', layout: 'tree', watch: 'node' });
  await withCluster(
    system,
    async (cluster, folder) => {
      const web = await startWeb(cluster, 'web', 3, served);
      const steady = await startWeb(cluster, 'steady', 2, served);
      const acts = await Acts.start(cluster, { web, steady, random });
      const targets = [web.address, steady.address, `kept:${steady.address}`, acts.switched];
      const clients = await Promise.all(served.map((name) => Clients.start(nodeOf(cluster, name), folder, targets)));
      const healedMs: number[] = [];
      for (const endMs = performance.now() + lengthMs; performance.now() < endMs; ) {
        const did = await acts.next();
        healedMs.push(await acts.healed());
        process.stdout.write(`${did}; healed after ${healedMs.at(-1)} ms\n`);
        expect({ did, lost: clients.flatMap((one) => one.lost()) }).toEqual({ did, lost: [] });
        // Old endpoints or new ones, at each moment.
        for (const one of clients) expect(acts.pods).toEqual(expect.arrayContaining([...one.pods(acts.switched)]));
      }
      for (const one of clients) await one.goOn();
      const connections = clients.reduce((sum, one) => sum + one.served(), 0);
      const most = Math.max(...healedMs);
      process.stdout.write(`${healedMs.length} acts, ${connections} connections, healed after ${most} ms at most\n`);
      expect(clients.flatMap((one) => one.lost())).toEqual([]);
      expect(await unwell(cluster)).toEqual([]);
    },
    'chaos',
  );
});
