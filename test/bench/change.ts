// One endpoint of one Service changes: from the moment a complete bundle lies there to the rules in the kernel, with every step that
// sluiced takes. Runs inside a network namespace of its own, started by main.ts. Prints one JSON line.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BundleFiles, chainOf, linkFlat, type ResolvedRules, resolveNode } from '@sluice/bundle';
import { openSession } from '../../packages/applier/src/commands/session.ts';
import { defaultConfig } from '../../packages/applier/src/config.ts';
import { printStaged } from '../../packages/applier/src/rollout/stages.ts';
import { Inbox } from '../../packages/applier/src/inbox/inbox.ts';
import { planTree, writeTree } from '../../packages/renderer/src/emit/tree.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { clusterList } from './data.ts';
import { median } from './measure.ts';

const services = Number(process.argv[2] ?? 1000);
const rounds = Number(process.argv[3] ?? 15);
const nodeName = 'node-0000';
const scratch = mkdtempSync(join(tmpdir(), 'sluice-change-'));
const bundle = join(scratch, 'rendered');
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));

// The conntrack limits belong to the machine: a network namespace cannot write them.
const sluice = `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\ncomplete: true\nprofiles:\n- name: default\n  clusterCIDR: 10.128.0.0/9\n  conntrack: { maxPerCore: 0 }\n`;
const { config } = readConfig({ sluice: { file: 'sluice.yaml', text: sluice }, kubeProxy: [] });
const list = clusterList({ services, endpointsPerService: 5, nodes: 1 });

/** The whole cluster with the first endpoint of one Service at another address. */
function rendered(service: number, address: string): BundleFiles {
  const items = list.items.map((item) => {
    const { name } = item['metadata'] as { name: string };
    if (name !== `svc-${service}-abcde`) return item;
    const endpoints = (item['endpoints'] as object[]).map((endpoint, n) =>
      n === 0 ? { ...endpoint, addresses: [address] } : endpoint,
    );
    return { ...item, endpoints };
  });
  const objects = load([{ file: 'list.json', text: JSON.stringify({ ...list, items }) }]).objects;
  const result = render({
    base: [],
    change: objects,
    config,
    allocations: [],
    allocate: false,
    snapshot: true,
    strict: false,
  });
  if (result.files.size === 0) throw new Error(JSON.stringify(result.problems.slice(0, 3)));
  return result.files;
}

function publish(files: BundleFiles): void {
  const plan = planTree(bundle, files);
  if ('code' in plan) throw new Error(plan.message);
  writeTree(bundle, files, plan);
}

/** What kube-proxy sends for the same change: every portal rule, and the chains of the one Service. */
function partialSync(files: BundleFiles, changed: ReadonlySet<string>): number {
  const node = resolveNode(files, nodeName);
  if (!('version' in node)) throw new Error(node[0]?.message);
  const { nat, filter } = node.rules.ipv4 as ResolvedRules;
  const payload = (['filter', 'nat'] as const).map((table) => {
    const rules = table === 'nat' ? nat : filter;
    const base = rules.chains.filter((chain) => !/-[A-Z2-7]{16}$/.test(chain) || changed.has(chain));
    const kept = new Set(base);
    return `*${table}\n${base.map((chain) => `:${chain} - [0:0]\n`).join('')}${rules.rules
      .filter((rule) => kept.has(chainOf(rule)))
      .map((rule) => `${rule}\n`)
      .join('')}COMMIT\n`;
  });
  const started = performance.now();
  inBaseline(['/usr/sbin/iptables-nft-restore', '-w', '5', '--noflush', '--counters'], payload.join(''));
  return performance.now() - started;
}

/** kube-proxy's rules have a kernel of their own: beside those of sluiced each commit would pay for both. */
const baseline = `slb-${process.pid}`;
execFileSync('/usr/sbin/ip', ['netns', 'add', baseline]);
process.on('exit', () => execFileSync('/usr/sbin/ip', ['netns', 'delete', baseline]));

function inBaseline(command: readonly string[], input: string): void {
  const args = [`--net=/run/netns/${baseline}`, ...command];
  execFileSync('/usr/bin/nsenter', args, { input, stdio: ['pipe', 'ignore', 'pipe'] });
}

/** What kube-proxy would have loaded before. */
function loadBaseline(files: BundleFiles): void {
  const node = resolveNode(files, nodeName);
  if (!('version' in node)) throw new Error(node[0]?.message);
  const linked = linkFlat(node.rules.ipv4 as ResolvedRules, 'ipv4');
  if (linked.problems.length > 0) throw new Error(linked.problems[0]?.message);
  inBaseline(['/usr/sbin/iptables-nft-restore', '--noflush'], printStaged(linked.program, 500));
}

let inKernelAt = 0;
let steps = 0;
const session = await openSession(
  { ...defaultConfig(nodeName), state: join(scratch, 'state'), backend: 'nft' },
  'change',
  (event) => {
    if (event === 'in-kernel') inKernelAt = performance.now();
    if (event === 'step') steps++;
  },
);
const inbox = new Inbox(bundle, nodeName, Date.now);

/** Milliseconds until the rules are in the kernel, and until they are verified and confirmed on disk. */
async function put(): Promise<{ inKernel: number; confirmed: number }> {
  const started = performance.now();
  // As the daemon looks after an event; the first time that is a look at everything.
  const arrival = await inbox.look('changed');
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const outcome = await session.keeper.put(arrival.tree.files, false);
  if (outcome.kind !== 'confirmed') throw new Error(JSON.stringify(outcome));
  return { inKernel: inKernelAt - started, confirmed: performance.now() - started };
}

/** What the kernel takes for any commit to this table, however small: it checks every rule that a packet can reach. */
function commitAlone(): number {
  const restore = (lines: string): void => {
    execFileSync('/usr/sbin/iptables-nft-restore', ['--noflush'], { input: `*nat\n${lines}COMMIT\n` });
  };
  const started = performance.now();
  restore(':SLB-ALONE - [0:0]\n-A SLB-ALONE -j ACCEPT\n');
  const took = performance.now() - started;
  restore(':SLB-ALONE - [0:0]\n-X SLB-ALONE\n');
  return took;
}

const start = rendered(-1, '');
loadBaseline(start);
publish(start);
const cold = await put();
const ours: Awaited<ReturnType<typeof put>>[] = [];
const again: typeof ours = [];
const theirs: number[] = [];
const alone: number[] = [];
for (let round = 0; round < rounds * 2; round++) {
  const service = (round * 37) % services;
  const files = rendered(service, `10.250.0.${round + 1}`);
  publish(files);
  (round % 2 === 0 ? ours : again).push(await put());
  alone.push(commitAlone());
  const text = files.get(`profiles/default/services/ns-${service % 50}/svc-${service}.iptables`) ?? '';
  theirs.push(partialSync(files, new Set([...text.matchAll(/^:(\S+)/gm)].map((match) => match[1] as string))));
}

/** The same tree once more, as another process would bring it: nothing is known of it but its bytes. */
async function equal(): Promise<{ ms: number; steps: number }> {
  const before = steps;
  const started = performance.now();
  const arrival = await new Inbox(bundle, nodeName, Date.now).look();
  if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
  const outcome = await session.keeper.put(arrival.tree.files, false);
  if (outcome.kind !== 'same') throw new Error(JSON.stringify(outcome));
  return { ms: performance.now() - started, steps: steps - before };
}

const same = await equal();
session.close();
const result = {
  same: same.ms,
  sameSteps: same.steps,
  cold: cold.confirmed,
  inKernel: median(ours.map((run) => run.inKernel)),
  again: median(again.map((run) => run.inKernel)),
  confirmed: median(ours.map((run) => run.confirmed)),
  partialSync: median(theirs),
  commitAlone: median(alone),
};
process.stdout.write(`${JSON.stringify(result)}\n`);
