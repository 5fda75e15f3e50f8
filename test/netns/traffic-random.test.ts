import { beforeEach, expect, test } from 'vitest';
import { randomOf } from '../review/mutate.ts';
import { type ClusterSpec, openCluster } from './cluster.ts';
import { needKernel } from './privileges.ts';
import { trafficExamples } from './traffic-examples.ts';
import { observe } from './traffic-kernel.ts';
import { loadNode, programsOf } from './traffic-nodes.ts';
import { comesBack, machineAt } from './traffic-places.ts';
import { randomRows } from './traffic-random.ts';
import type { Row } from './traffic-table.ts';
import { predict } from './traffic-trace.ts';

beforeEach(needKernel);

const soak = process.env['SLUICE_SOAK'] === '1';
const seed = Number(process.env['SLUICE_SEED'] ?? 20_261_121);
const packets = soak ? 500 : 100;
/** Connections that are open at the same time. */
const batch = 50;

/** Virtual servers have a test of their own: many machines have no kernel for them. */
const examples = trafficExamples().filter(({ name }) => !/ipvs|mixed/.test(name));

test.each(examples)(
  `$name: ${packets} random connections of seed ${seed} end as the tracer says`,
  { timeout: 180_000 },
  async ({ table, spec, render }) => {
    const bundle = await render();
    const programs = programsOf(bundle);
    const rows = randomRows(spec, table, packets, randomOf(seed))
      .map((row): Row => ({ ...row, expect: predict(spec, programs, row) }))
      .filter((row) => comesBack(spec, row));
    await using cluster = await openCluster(spec);
    await Promise.all(spec.nodes.map((node) => loadNode(bundle, cluster.host(node.name), 'nft')));
    for (const text of table.outside.ports) {
      const [port, protocol] = text.split('/');
      await cluster.host('outside').serve(protocol === 'udp' ? 'udp' : 'tcp', Number(port));
    }
    const wrong: string[] = [];
    const look = async (row: Row): Promise<void> => {
      const seen = await observe(cluster, { ...table, listen: { outside: table.outside.ports } }, row);
      if (!seen.every((verdict) => row.expect.includes(verdict) || isLost(spec, row, verdict))) {
        wrong.push(
          `${row.from} via ${row.via} → ${JSON.stringify(row.to)}: ${seen.join()} instead of ${row.expect.join()}`,
        );
      }
    };
    for (const [via, group] of Map.groupBy(rows, (row) => row.via)) {
      if (via !== undefined) for (const { to } of group) await cluster.enterAt(to.address, via);
      for (let at = 0; at < group.length; at += batch) await Promise.all(group.slice(at, at + batch).map(look));
    }
    expect(wrong).toEqual([]);
  },
);

/**
 * A packet that no Service decides about, to an address of nobody: whether this little world is silent or says so (`''`, that it is
 * unreachable, once an earlier packet has looked for the neighbour in vain) is its own affair.
 */
function isLost(spec: ClusterSpec, row: Row, verdict: string): boolean {
  const isNobodys = machineAt(spec, row.from, row.to.address) === undefined;
  return isNobodys && (verdict === 'drop' || verdict === '') && row.expect.every((expected) => expected === 'pass');
}
