// @module-tag quick
import { isDeepStrictEqual } from 'node:util';
import { reaches } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { openCluster } from './cluster.ts';
import { needBackend, needKernel } from './privileges.ts';
import { asLines, trafficExamples } from './traffic-examples.ts';
import { observeAll, serveExtras } from './traffic-kernel.ts';
import { loadNode, programsOf } from './traffic-nodes.ts';
import { predict } from './traffic-trace.ts';

beforeEach(needKernel);

/** The legacy tools read the same text; the examples with most kinds of rules are enough to check that. ./dev soak runs all. */
const onLegacyToo = new Set(['03-load-balancer', '04-affinity-and-udp', '05-dual-stack', '09-profiles']);

const examples = trafficExamples().filter(({ inIpvs }) => !inIpvs);

const runs = examples.flatMap((example) => {
  const backends =
    reaches('soak') || (reaches('test') && onLegacyToo.has(example.name))
      ? (['nft', 'legacy'] as const)
      : (['nft'] as const);
  const rows = example.table.packets.filter((row) => row.to.protocol !== 'sctp');
  const traced = example.table.packets.length - rows.length;
  const note = `${rows.length} rows${traced === 0 ? '' : `, ${traced} more only traced`}`;
  return backends.map((backend) => ({ ...example, backend, rows, note }));
});

describe.each(runs)('$name on $backend ($note)', ({ table, spec, render, backend, rows }) => {
  test('real connections end as traced, and as the table expects', async (context) => {
    needBackend(context, backend);
    const bundle = await render();
    const programs = programsOf(bundle);
    await using cluster = await openCluster(spec);
    await serveExtras(cluster, table);
    await Promise.all(spec.nodes.map((node) => loadNode(bundle, cluster.host(node.name), backend)));
    const seen = await observeAll(cluster, table, rows);
    const observed = asLines(rows, (row) => seen.get(row) ?? []);
    expect(observed).toEqual(asLines(rows, (row) => predict(spec, programs, row)));
    expect(observed).toEqual(asLines(rows));
  });
});

test('detects a kernel that has lost one chain', async () => {
  const [example] = examples;
  if (!example) throw new Error('There are no examples');
  const { table, spec, render } = example;
  const bundle = await render();
  await using cluster = await openCluster(spec);
  await Promise.all(spec.nodes.map((node) => loadNode(bundle, cluster.host(node.name), 'nft')));
  for (const node of spec.nodes)
    await cluster.host(node.name).run(['iptables-nft', '-t', 'nat', '-F', 'KUBE-SERVICES']);
  const seen = await observeAll(cluster, table, table.packets);
  const wrong = table.packets.filter(
    (row) =>
      !isDeepStrictEqual(
        asLines([row], (r) => seen.get(r) ?? []),
        asLines([row]),
      ),
  );
  expect(wrong.map(({ title }) => title)).toEqual([
    'a pod reaches the Service',
    'a pod of the Service may reach itself',
    'a node reaches the Service',
  ]);
});
