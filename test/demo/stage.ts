import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { listExamples } from '../../tools/examples.ts';
import { type Cluster, openCluster } from '../netns/cluster.ts';
import { clusterOf } from '../netns/traffic-cluster.ts';
import { readPacketTable } from '../netns/traffic-table.ts';
import { DemoNode } from './node.ts';

const exampleName = '03-load-balancer';

/** The Service of the demo, as in examples/03-load-balancer/in/api.yaml. */
export const api = {
  clusterIP: '10.96.0.31',
  port: 443,
  loadBalancerIP: '203.0.113.10',
  nodePort: 30_091,
  targetPort: 8443,
  pods: ['api-1', 'api-2'],
} as const;

/** The environment of the demo: a cluster, a working copy of an example, a sluiced per node. */
export interface Stage extends AsyncDisposable {
  /** The working copy: `in`, `sluice.yaml`, and the bundle `rendered`. */
  readonly dir: string;
  /** The folder of the programs. */
  readonly bin: string;
  readonly cluster: Cluster;
  readonly nodes: readonly DemoNode[];
  /** Replaces text in a manifest of the working copy. */
  edit(file: string, from: string, to: string): void;
  /** `sluice render` over the working copy. @returns its output */
  render(): Promise<string>;
  /** `sluice ls` of the bundle. */
  list(): Promise<string>;
  /** The version of the bundle for each node. */
  versions(): Promise<ReadonlyMap<string, string>>;
  /** A rule file of the bundle, below its profile. */
  read(file: string): string;
}

/** Builds the cluster and the working copy; nothing is rendered and no sluiced runs yet. */
export async function openStage(bin = join(import.meta.dirname, '../../bin')): Promise<Stage> {
  const example = listExamples().find(({ name }) => name === exampleName);
  if (example?.config === undefined || example.packets === undefined)
    throw new Error(`examples/${exampleName} is incomplete`);
  const dir = mkdtempSync(join(tmpdir(), 'sluice-demo-'));
  const remove = (): void => rmSync(dir, { recursive: true, force: true });
  const manifests = join(dir, 'in');
  const bundle = join(dir, 'rendered');
  cpSync(example.input, manifests, { recursive: true });
  cpSync(example.config, join(dir, 'sluice.yaml'));
  const cluster = await openCluster(clusterOf(manifests, example.config, readPacketTable(example.packets))).catch(
    (error: unknown) => {
      remove();
      throw error;
    },
  );
  const probe = { name: 'api', http: `http://${api.clusterIP}:${api.port}/` };
  const run = async (argv: readonly string[]): Promise<string> =>
    (await execa(join(bin, 'sluice'), argv, { all: true })).all;
  const nodes = cluster.spec.nodes.map(
    ({ name }) => new DemoNode(cluster.host(name), dir, bundle, probe, { sluiced: join(bin, 'sluiced') }),
  );
  return {
    dir,
    bin,
    cluster,
    nodes,
    edit: (file, from, to) => replaceIn(join(manifests, file), from, to),
    render: () => run(['render', '-f', manifests, '-c', join(dir, 'sluice.yaml'), '-o', bundle]),
    list: () => run(['ls', bundle]),
    versions: async () => readVersions(await run(['ls', bundle, '-o', 'json'])),
    read: (file) => readFileSync(join(bundle, 'profiles', 'default', file), 'utf8'),
    async [Symbol.asyncDispose]() {
      await cluster[Symbol.asyncDispose]();
      remove();
    },
  };
}

function readVersions(json: string): ReadonlyMap<string, string> {
  const { nodes } = JSON.parse(json) as { nodes: readonly { node: string; version: string }[] };
  return new Map(nodes.map(({ node, version }) => [node, version]));
}

function replaceIn(file: string, from: string, to: string): void {
  const before = readFileSync(file, 'utf8');
  if (!before.includes(from)) throw new Error(`Cannot edit ${file}: missing text ${JSON.stringify(from)}`);
  writeFileSync(file, before.replaceAll(from, to));
}
