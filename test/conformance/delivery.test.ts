// @module-tag all
// @module-tag alone
import { reaches } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { askAll, shareOf, spreadOf } from './askers.ts';
import type { Delivered } from './inside/delivery.ts';
import { startWeb } from './operations/web.ts';
import { useRig } from './rig.ts';
import { kubeProxySystem, sideBySide, sluiceSystem, type System } from './systems.ts';
import { gitSystem, servedSystem } from './ways.ts';

const withCluster = useRig();

/** Services beside those that change: `SLUICE_SERVICES=1000`. */
const services = Number(process.env['SLUICE_SERVICES'] ?? '0');
const own = sluiceSystem({ mode: 'nftables', layout: 'tree', watch: 'node' });
const beside = kubeProxySystem('nftables');

/** What serves each node, and how long the median of a change may take: a loop that sleeps 30 s lies between Git and its node. */
type Parts = readonly (readonly [system: System, nodes: readonly string[], medianMs: number])[];
const cases: readonly { readonly title: string; readonly parts: Parts }[] = [
  {
    title: 'a watch on each node',
    parts: [
      [own, ['node-1'], 5_000],
      [beside, ['node-2'], 5_000],
      [kubeProxySystem('iptables'), ['node-3'], 5_000],
    ],
  },
  ...(reaches('soak')
    ? [
        {
          title: 'one watch for all nodes',
          parts: [
            [servedSystem, ['node-1'], 5_000],
            [beside, ['node-2'], 5_000],
            [gitSystem, ['node-3'], 60_000],
          ] as const,
        },
      ]
    : []),
];

describe.each(cases)('$title', ({ title, parts }) => {
  test('a packet of each node meets a change of the API soon, beside kube-proxy', { timeout: 1_200_000 }, async () => {
    const system = sideBySide(
      title,
      parts.map(([one, nodes]) => [one, nodes] as const),
    );
    await withCluster(
      system,
      async (cluster) => {
        const steady = await startWeb(cluster, 'steady', 2);
        const scaled = (await startWeb(cluster, 'scaled', 2)).name;
        const delivered = await askAll<Delivered>(cluster, 'delivery.ts', steady, { scaled, services });
        const { load, used } = delivered;
        for (const [{ title: name }, nodes, medianMs] of parts)
          for (const node of nodes) {
            const of = (kind: 'added' | 'replaced' | 'scaled') => delivered[kind][node] ?? [];
            const [added, replaced, more] = [of('added'), of('replaced'), of('scaled')];
            const told = { added: spreadOf(added), replaced: spreadOf(replaced), scaled: spreadOf(more) };
            process.stdout.write(`${JSON.stringify({ name, load, services, ...told, used: used[node] })}\n`);
            expect([added.length, replaced.length]).toEqual([15, 15]);
            expect(more.length).toBeGreaterThan(3);
            for (const values of [added, replaced, more]) expect(shareOf(values, 0.5)).toBeLessThan(medianMs);
          }
      },
      `delivery ${title}`,
    );
  });
});
