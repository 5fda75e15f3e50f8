import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { listExamples, renderArguments } from '../../tools/examples.ts';
import { type Cluster, openCluster } from './cluster.ts';
import { needKernel } from './privileges.ts';
import { clusterOf } from './traffic-cluster.ts';
import { observe } from './traffic-kernel.ts';
import { loadNode, programsOf } from './traffic-nodes.ts';
import { type PacketTable, type Row, readPacketTable, type Verdict } from './traffic-table.ts';
import { predict } from './traffic-trace.ts';

const sluice = join(import.meta.dirname, '..', '..', 'bin', 'sluice');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-traffic-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** The legacy tools read the same text; a few examples with many kinds of rules are enough to see that. */
const onLegacyToo = new Set(['03-load-balancer', '04-affinity-and-udp', '05-dual-stack']);

const examples = listExamples().flatMap((example) => {
  const { packets } = example;
  if (packets === undefined) return [];
  const table = readPacketTable(packets);
  return [{ example, table, spec: clusterOf(example.input, table), bundle: join(scratch, example.name) }];
});

const rendered = new Map<string, Promise<unknown>>();
/** Renders an example once for all of its tests. */
function render({ example, bundle }: (typeof examples)[number]): Promise<unknown> {
  const started = rendered.get(bundle) ?? execa(sluice, renderArguments(example, bundle));
  rendered.set(bundle, started);
  return started;
}

describe.each(examples)('$example.name', (prepared) => {
  const { example, table, spec, bundle } = prepared;

  test('the tracer follows every packet to its verdict', async () => {
    await render(prepared);
    const programs = programsOf(bundle);
    expect(asTable(table.packets, (row) => predict(spec, programs, row))).toEqual(expected(table.packets));
  });

  describe.runIf(true)('in the kernel', () => {
    beforeEach(needKernel);
    const backends = onLegacyToo.has(example.name) ? (['nft', 'legacy'] as const) : (['nft'] as const);
    test.each(backends)('real connections end as the table says (%s)', async (backend) => {
      await render(prepared);
      await using cluster = await openCluster(spec);
      await serveExtras(cluster, table);
      await Promise.all(spec.nodes.map((node) => loadNode(bundle, cluster.host(node.name), backend)));
      const rows = table.packets.filter((row) => row.to.protocol !== 'sctp');
      const seen = await observeAll(cluster, table, rows);
      expect(asTable(rows, (row) => seen.get(row) ?? [])).toEqual(expected(rows));
    });
  });
});

/** What answers besides the pods. */
async function serveExtras(cluster: Cluster, table: PacketTable): Promise<void> {
  const extras = [...Object.entries(table.listen), ['outside', table.outside.ports] as const];
  for (const [name, ports] of extras) {
    for (const text of ports) {
      const [port, protocol] = text.split('/');
      await cluster.host(name).serve(protocol === 'udp' ? 'udp' : 'tcp', Number(port));
    }
  }
}

/** Rows at the same time, but for those that need another route from outside: they go node by node. */
async function observeAll(
  cluster: Cluster,
  table: PacketTable,
  rows: readonly Row[],
): Promise<Map<Row, readonly Verdict[]>> {
  const seen = new Map<Row, readonly Verdict[]>();
  for (const [via, group] of Map.groupBy(rows, (row) => row.via)) {
    if (via !== undefined) for (const { to } of group) await cluster.enterAt(to.address, via);
    await Promise.all(group.map(async (row) => seen.set(row, await observe(cluster, table, row))));
  }
  return seen;
}

/** One line per row, so that a difference reads like the table. */
function asTable(rows: readonly Row[], verdicts: (row: Row) => readonly Verdict[]): readonly string[] {
  return rows.map((row) => {
    const all = verdicts(row);
    // Affinity lets one client see one endpoint only: any of them will do.
    const some = row.stays && all.length === 1 && row.expect.includes(all[0] ?? '') ? row.expect : all;
    return `${row.title}: ${row.from} → ${row.to.address}:${row.to.port}/${row.to.protocol}: ${some.toSorted().join(' | ')}`;
  });
}

const expected = (rows: readonly Row[]): readonly string[] => asTable(rows, (row) => row.expect);
