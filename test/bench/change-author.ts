// Writes bundles for change.ts, and the rules that kube-proxy would load for them: a process of its own, as the renderer is on a real
// node. The more memory a process has, the longer a fork takes. Answers each message when it is done.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type BundleFiles, resolveNode } from '@sluice/bundle';
import { chainOf, linkFlat, type ResolvedRules } from '@sluice/netfilter';
import { printStaged } from '../../packages/applier/src/apply/plan/stages.ts';
import { planTree, writeTree } from '../../packages/renderer/src/emit/tree.ts';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { clusterList } from './data.ts';

const [services, scratch, nodeName] = [Number(process.argv[2]), process.argv[3] ?? '', process.argv[4] ?? ''];
const bundle = join(scratch, 'rendered');

// The conntrack limits belong to the machine: a network namespace cannot write them.
const sluice = `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\ncomplete: true\nprofiles:\n- name: default\n  clusterCIDR: 10.128.0.0/9\n  conntrack: { maxPerCore: 0 }\n`;
const { config } = readConfig({ sluice: { file: 'sluice.yaml', text: sluice }, kubeProxy: [] });
const list = clusterList({ services, endpointsPerService: 5, nodes: 1 });

/** The addresses of moved first endpoints, by the name of their EndpointSlice. They stay: otherwise each change would affect two Services. */
const moved = new Map<string, string>();

/** The whole cluster with the first endpoint of one more Service at another address. */
function rendered(service: number, address: string): BundleFiles {
  if (service >= 0) moved.set(`svc-${service}-abcde`, address);
  const items = list.items.map((item) => {
    const there = moved.get((item['metadata'] as { name: string }).name);
    if (there === undefined) return item;
    const endpoints = (item['endpoints'] as object[]).map((endpoint, n) =>
      n === 0 ? { ...endpoint, addresses: [there] } : endpoint,
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

function rulesOf(files: BundleFiles): ResolvedRules {
  const node = resolveNode(files, nodeName);
  if (!('version' in node)) throw new Error(node[0]?.message);
  return node.rules.ipv4 as ResolvedRules;
}

/** The rules that kube-proxy would have loaded before. */
function wholeSync(files: BundleFiles): string {
  const linked = linkFlat(rulesOf(files), 'ipv4');
  if (linked.problems.length > 0) throw new Error(linked.problems[0]?.message);
  return printStaged(linked.program, 500);
}

/** The payload of kube-proxy for a change: every portal rule, and the chains of the one Service. */
function partialSync(files: BundleFiles, service: number): string {
  const text = files.get(`profiles/default/services/ns-${service % 50}/svc-${service}.iptables`) ?? '';
  const changed = new Set([...text.matchAll(/^:(\S+)/gm)].map((match) => match[1] as string));
  const { nat, filter } = rulesOf(files);
  const payload = (['filter', 'nat'] as const).map((table) => {
    const rules = table === 'nat' ? nat : filter;
    const base = rules.chains.filter((chain) => !/-[A-Z2-7]{16}$/.test(chain) || changed.has(chain));
    const kept = new Set(base);
    return `*${table}\n${base.map((chain) => `:${chain} - [0:0]\n`).join('')}${rules.rules
      .filter((rule) => kept.has(chainOf(rule)))
      .map((rule) => `${rule}\n`)
      .join('')}COMMIT\n`;
  });
  return payload.join('');
}

process.on('message', ({ service, address }: { service: number; address: string }) => {
  const files = rendered(service, address);
  publish(files);
  writeFileSync(join(scratch, 'kube-proxy.rules'), service < 0 ? wholeSync(files) : partialSync(files, service));
  process.send?.('done');
});
