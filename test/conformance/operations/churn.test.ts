// @module-tag all
// @module-tag alone
import { atTier, reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { askAll, spreadOf } from '../askers.ts';
import type { Churned } from '../inside/churn.ts';
import { useRig } from '../rig.ts';
import { kubeProxySystem, type Mode, sideBySide, sluiceSystem } from '../systems.ts';
import { Clients } from './clients.ts';
import { nodeOf, rolledOut, startWeb } from './web.ts';

/** A busy cluster of real kubelets: two nodes with Sluice, and one with kube-proxy, which meets the same changes at the same load. */

const withCluster = useRig();
const modes: readonly Mode[] = reaches('soak') ? ['nftables', 'iptables'] : ['nftables'];
const [sluiced, beside] = [['node-1', 'node-3'], 'node-2'] as const;
/** Of a machine that is not overloaded: where kube-proxy needs long itself, three times of that. Sluice takes more of a processor. */
const servedMs = 2_000;
/** Pods of the Deployment that is rolled, half of them at once. */
const pods = atTier({ quick: 6, soak: 50 });

const most = (values: readonly number[] = []): number => spreadOf(values)[2] ?? Infinity;

describe.each(modes)('mode %s', (mode) => {
  test('300 Services come and go in a minute, endpoints change 100 times a second, and a rolled Deployment loses no connection', {
    timeout: 1_200_000,
  }, async () => {
    const own = sluiceSystem({ mode, layout: 'tree', watch: 'node' });
    const title = `churn, mode ${mode}`;
    const system = sideBySide(title, [
      [own, sluiced],
      [kubeProxySystem(mode), [beside]],
    ]);
    await withCluster(
      system,
      async (cluster, folder) => {
        const { kubectl } = cluster.plane;
        const steady = await startWeb(cluster, 'steady', 2);
        const rolled = await startWeb(cluster, 'rolled', pods, [], Math.ceil(pods / 2));
        const addresses = [`kept:${steady.address}`, steady.address, rolled.address];
        const hosts = ['node-1', beside].map((name) => nodeOf(cluster, name));
        const [clients, others] = await Promise.all(hosts.map((host) => Clients.start(host, folder, addresses)));
        const churned = await askAll<Churned>(cluster, 'churn.ts', steady);
        await kubectl(['rollout', 'restart', 'deployment/rolled']);
        await rolledOut(kubectl, 'rolled', pods);
        for (const one of [clients, others]) await one?.goOn();
        const spreads = (['served', 'removed', 'settled'] as const).map((kind) => [
          kind,
          Object.fromEntries(Object.entries(churned[kind]).map(([node, values]) => [node, spreadOf(values)])),
        ]);
        const { load, rate, seconds } = churned;
        const lost = { [hosts[0]?.name ?? '']: clients?.lost(), [beside]: others?.lost() };
        const told = { title, load, rate, seconds, ...Object.fromEntries(spreads), lost, asked: clients?.served() };
        process.stdout.write(`${JSON.stringify(told)}\n`);
        for (const node of sluiced) {
          expect([churned.served[node]?.length, churned.removed[node]?.length]).toEqual([300, 300]);
          for (const kind of ['served', 'settled'] as const)
            expect(most(churned[kind][node])).toBeLessThanOrEqual(Math.max(servedMs, 3 * most(churned[kind][beside])));
          expect(most(churned.removed[node])).toBeLessThan(60_000);
        }
        expect(clients?.served()).toBeGreaterThan(100);
        expect(clients?.lost()).toEqual([]);
      },
      title,
    );
  });
});
