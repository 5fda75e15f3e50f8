// Mode ipvs with many Services: the first release and one endpoint that changes, with every process that sluiced starts. Runs in the
// emulated guest, started by ipvs.ts: `node ipvs-inside.ts [SERVICES]`. Prints one JSON line.
import { subscribe } from 'node:diagnostics_channel';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';
import { openSession } from '../../packages/applier/src/commands/session/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { clusterList } from './data.ts';

/** The processes and the time of a release. */
export interface ReleaseCost {
  readonly ms: number;
  readonly total: number;
  /** The number that change the kernel. The rest read its state, or rehearse. */
  readonly changing: number;
  /** The processes by tool. */
  readonly byTool: Readonly<Record<string, number>>;
}

const services = Number(process.argv[2] ?? 10_000);
const nodeName = 'node-0000';
const sluice = `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
complete: true
profiles:
- { name: default, mode: ipvs, clusterCIDR: 10.128.0.0/9, conntrack: { maxPerCore: 0 } }
`;
const { config } = readConfig({ sluice: { file: 'sluice.yaml', text: sluice }, kubeProxy: [] });
const list = clusterList({ services, endpointsPerService: 5, nodes: 1 });

/** The whole cluster; the first endpoint of the first Service has this address, if one is given. */
function rendered(address?: string): BundleFiles {
  const items = list.items.map((item) => {
    const { name } = item['metadata'] as { name: string };
    if (address === undefined || name !== 'svc-0-abcde') return item;
    const [first, ...others] = item['endpoints'] as object[];
    return { ...item, endpoints: [{ ...first, addresses: [address] }, ...others] };
  });
  const change = load([{ file: 'list.json', text: JSON.stringify({ ...list, items }) }]).objects;
  const options = { base: [], config, allocations: [], allocate: false, snapshot: true, strict: false };
  const { files, problems } = render({ ...options, change });
  if (files.size === 0) throw new Error(JSON.stringify(problems.slice(0, 3)));
  return files;
}

let started: string[] = [];
interface SpawnedTool {
  readonly spawnargs: readonly string[];
  once(event: 'spawn', listener: () => void): void;
}
subscribe('child_process', (message) => {
  const { process: child } = message as { readonly process: SpawnedTool };
  // The command is known after the spawn.
  child.once('spawn', () => started.push(child.spawnargs.join(' ')));
});
const changes = /^\S*(tables-nft-restore|ipset restore|ipvsadm -R|ip -batch)/;

const node = defaultConfig(nodeName);
const state = join(mkdtempSync(join(tmpdir(), 'sluice-ipvs-')), 'state');
const session = await openSession(
  { ...node, state, backend: 'nft', probation: { ...node.probation, seconds: 0 } },
  'change',
  () => {},
);
/** The processes that look for tools at the start of sluiced. */
const atStart = started.length;

async function put(files: BundleFiles): Promise<ReleaseCost> {
  started = [];
  const begin = performance.now();
  const outcome = await session.reconciler.put(files, false);
  if (outcome.kind !== 'confirmed') throw new Error(JSON.stringify(outcome).slice(0, 2000));
  const ms = performance.now() - begin;
  const byTool: Record<string, number> = {};
  for (const command of started.toSorted()) {
    const tool = basename(command.split(' ', 1)[0] ?? '');
    byTool[tool] = (byTool[tool] ?? 0) + 1;
  }
  return { ms, total: started.length, changing: started.filter((command) => changes.test(command)).length, byTool };
}

const cold = await put(rendered());
const change = await put(rendered('10.250.0.1'));
session.close();
process.stdout.write(`${JSON.stringify({ atStart, cold, change })}\n`);
