// @module-tag all
import { atTier, randomOf, seed } from '@sluice/testing';
import { beforeEach, expect, test } from 'vitest';
import { openCluster } from './cluster.ts';
import { needKernel } from './privileges.ts';
import { trafficExamples } from './traffic-examples.ts';
import { loadNode, programsOf } from './traffic-nodes.ts';
import { predictedRows, randomRows, serveOutside, mispredicted } from './traffic-random.ts';

beforeEach(needKernel);

const packets = atTier({ quick: 100, soak: 500 });

/** Virtual servers have a test of their own: many kernels lack them. */
const examples = trafficExamples().filter(({ name }) => !/ipvs|mixed/.test(name));

test.each(examples)(
  `$name: ${packets} random connections end as the tracer says`,
  { timeout: 180_000 },
  async ({ table, spec, render }) => {
    const bundle = await render();
    const programs = programsOf(bundle);
    const rows = predictedRows(spec, programs, randomRows(spec, table, packets, randomOf(seed)));
    await using cluster = await openCluster(spec);
    await Promise.all(spec.nodes.map((node) => loadNode(bundle, cluster.host(node.name), 'nft')));
    await serveOutside(cluster, table);
    expect(await mispredicted(cluster, table, rows)).toEqual([]);
  },
);
