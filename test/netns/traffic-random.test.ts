import { beforeEach, expect, test } from 'vitest';
import { randomOf } from '../review/mutate.ts';
import { openCluster } from './cluster.ts';
import { needKernel } from './privileges.ts';
import { trafficExamples } from './traffic-examples.ts';
import { loadNode, programsOf } from './traffic-nodes.ts';
import { predictedRows, randomRows, serveOutside, unlikePredicted } from './traffic-random.ts';

beforeEach(needKernel);

const soak = process.env['SLUICE_SOAK'] === '1';
const seed = Number(process.env['SLUICE_SEED'] ?? 20_261_121);
const packets = soak ? 500 : 100;

/** Virtual servers have a test of their own: many machines have no kernel for them. */
const examples = trafficExamples().filter(({ name }) => !/ipvs|mixed/.test(name));

test.each(examples)(
  `$name: ${packets} random connections of seed ${seed} end as the tracer says`,
  { timeout: 180_000 },
  async ({ table, spec, render }) => {
    const bundle = await render();
    const programs = programsOf(bundle);
    const rows = predictedRows(spec, programs, randomRows(spec, table, packets, randomOf(seed)));
    await using cluster = await openCluster(spec);
    await Promise.all(spec.nodes.map((node) => loadNode(bundle, cluster.host(node.name), 'nft')));
    await serveOutside(cluster, table);
    expect(await unlikePredicted(cluster, table, rows)).toEqual([]);
  },
);
