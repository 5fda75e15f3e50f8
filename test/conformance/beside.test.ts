// @module-tag all
// @module-tag alone
import { loadavg } from 'node:os';
import { reaches } from '@sluice/testing';
import { expect, test } from 'vitest';
import { startAskers } from './askers.ts';
import type { Used } from './inside/nodes.ts';
import { focus, judge, skip } from './judge.ts';
import { useRig } from './rig.ts';
import { kubeProxySystem, sideBySide, sluiceSystem } from './systems.ts';

const withCluster = useRig();
const isWhole = reaches('soak');

test('Kubernetes judges a cluster of both, and what serves Services on each node is measured', {
  timeout: 3_600_000,
  retry: 0,
}, async () => {
  const own = sluiceSystem({ mode: 'nftables', layout: 'tree', watch: 'node' });
  const system = sideBySide('beside kube-proxy', [
    [own, ['node-1', 'node-3']],
    [kubeProxySystem('nftables'), ['node-2']],
  ]);
  await withCluster(system, async (cluster, folder) => {
    const { control, programs, plane } = cluster;
    const used = await startAskers(cluster);
    const before = await used();
    const startedMs = Date.now();
    const chosen = isWhole ? focus : String.raw`${focus}.*\[Conformance\]`;
    const options = { focus: chosen, skip, processes: 8, timeoutMs: 3_000_000 };
    const { verdicts } = await judge(control, programs, plane.kubeconfig, folder, options);
    const after = await used();
    const minutes = Math.round((Date.now() - startedMs) / 60_000);
    process.stdout.write(`${JSON.stringify({ tests: verdicts.size, minutes, load: Math.round(loadavg()[0] ?? 0) })}\n`);
    for (const [node, programsOf] of Object.entries(after))
      process.stdout.write(`${JSON.stringify({ node, ...spent(before[node] ?? {}, programsOf) })}\n`);
    expect([...verdicts].filter(([, verdict]) => verdict === 'failed')).toEqual([]);
    expect(verdicts.size).toBeGreaterThan(isWhole ? 100 : 20);
  });
});

/** Of each program: seconds of a processor until the tests began, and for them; memory at the end. */
const spent = (before: Readonly<Record<string, Used>>, after: Readonly<Record<string, Used>>) =>
  Object.fromEntries(
    Object.entries(after).map(([name, { seconds, residentKb }]) => {
      const start = before[name]?.seconds ?? 0;
      return [
        name,
        { start, seconds: Number((seconds - start).toFixed(2)), residentMb: Math.round(residentKb / 1024) },
      ];
    }),
  );
