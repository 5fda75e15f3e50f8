// @module-tag all
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { atTier, programPath, randomOf, seed } from '@sluice/testing';
import { execaSync } from 'execa';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Cluster, openCluster } from '../../netns/cluster.ts';
import type { Host } from '../../netns/cluster-host.ts';
import { asLines, trafficExamples } from '../../netns/traffic-examples.ts';
import { observeAll, serveExtras } from '../../netns/traffic-kernel.ts';
import { type Programs, programsOf, sysctlsOf } from '../../netns/traffic-nodes.ts';
import { comesBack } from '../../netns/traffic-places.ts';
import { predictedRows, randomRows, mispredicted } from '../../netns/traffic-random.ts';
import { predict } from '../../netns/traffic-trace.ts';

/** Examples of mode ipvs, applied on every node by `sluiced apply`: the table, the tracer and the kernel agree. */

/** For each example. */
const packets = atTier({ quick: 100, soak: 300 });
/** An emulated machine opens a few connections a second. */
const slowly = { atOnce: 8, silenceMs: 4_000 };

const sluiced = programPath('sluiced');
const scratch = mkdtempSync(join(tmpdir(), 'sluiced-traffic-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

// nf_conntrack's machine-wide limit exists once the module is loaded, by the first rule that needs it.
beforeAll(() => {
  execaSync('unshare', ['-n', 'iptables-nft', '-t', 'nat', '-A', 'OUTPUT', '-m', 'conntrack', '--ctstate', 'NEW']);
});

const examples = trafficExamples().filter(({ inIpvs }) => inIpvs);

test('finds examples of mode ipvs', () => {
  expect(examples.map(({ name }) => name)).toEqual(['10-ipvs', '11-mixed']);
});

describe.each(examples)('$name', ({ name, table, spec, render }) => {
  // The fallback of policy Local is not masqueraded: a node that sends to another node's pod never gets the answer.
  const rows = table.packets.filter((row) => row.to.protocol !== 'sctp' && comesBack(spec, row));
  const traced = table.packets.length - rows.length;
  let cluster: Cluster;
  let programs: ReadonlyMap<string, Programs>;

  beforeAll(async () => {
    const bundle = await render();
    programs = programsOf(bundle);
    cluster = await openCluster(spec);
    await serveExtras(cluster, table);
    for (const node of spec.nodes) await applyOn(cluster.host(node.name), bundle, join(scratch, name));
  }, 300_000);
  afterAll(() => cluster[Symbol.asyncDispose]());

  test(`${rows.length} rows, ${traced} more only traced: real connections end as traced, and as the table expects`, {
    timeout: 300_000,
  }, async () => {
    const seen = await observeAll(cluster, table, rows, slowly);
    const observed = asLines(rows, (row) => seen.get(row) ?? []);
    expect(observed).toEqual(asLines(rows, (row) => predict(spec, programs, row)));
    expect(observed).toEqual(asLines(rows));
  });

  test(`${packets} random connections end as traced`, { timeout: 300_000 }, async () => {
    const random = randomRows(spec, table, packets, randomOf(seed));
    expect(await mispredicted(cluster, table, predictedRows(spec, programs, random), slowly)).toEqual([]);
  });
});

/** As an operator would: `sluiced apply` with a config and a state of the node's own. */
async function applyOn(node: Host, bundle: string, prefix: string): Promise<void> {
  // Some keys belong to the whole machine and cannot be written in a namespace: sluiced refuses unless they already have their value.
  for (const [key, value] of Object.entries(await sysctlsOf(bundle, node.name))) {
    if (existsSync(`/proc/sys/${key}`)) writeFileSync(`/proc/sys/${key}`, value);
  }
  const directory = `${prefix}-${node.name}`;
  const fields = [
    'apiVersion: sluice.dev/v1alpha1',
    'kind: SluicedConfig',
    `node: ${node.name}`,
    'backend: nft',
    'signatures: {policy: none}',
  ];
  writeFileSync(`${directory}.yaml`, `${[...fields, `state: ${directory}-state`].join('\n')}\n`);
  const command = [process.execPath, sluiced, 'apply', bundle, '-c', `${directory}.yaml`];
  await node.run(command, { timeoutMs: 120_000 });
}
