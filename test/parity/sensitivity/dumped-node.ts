import type { BundleFiles, Observation } from '@sluice/bundle';
import { readTree } from '../../../packages/renderer/src/load/tree.ts';
import type { KubeItem } from '../api-server.ts';
import { fenceOf } from '../fence.ts';
import { KubeProxyNode } from '../kube-proxy-node.ts';
import type { ParityPrograms } from '../programs.ts';
import { Renderer, SluiceNode } from '../sluice-node.ts';
import type { WiredNode } from '../wire.ts';
import { type Dump, dumpOf, loadDump, observe } from './dump.ts';

/** Which program wrote the rules of a node, in which mode, and in which store they are. */
export interface DumpKind {
  readonly title: string;
  readonly of: 'kube-proxy' | 'sluice';
  readonly mode: 'iptables' | 'nftables';
  readonly store: Dump['store'];
}

/** Layout flat is not here: its rules are those of kube-proxy, chain for chain (`parity.test.ts`). */
export const dumpKinds: readonly DumpKind[] = [
  { title: 'kube-proxy iptables', of: 'kube-proxy', mode: 'iptables', store: 'nft' },
  { title: 'kube-proxy nftables', of: 'kube-proxy', mode: 'nftables', store: 'nft' },
  { title: 'kube-proxy iptables-legacy', of: 'kube-proxy', mode: 'iptables', store: 'legacy' },
  { title: 'Sluice iptables, tree', of: 'sluice', mode: 'iptables', store: 'nft' },
  { title: 'Sluice nftables', of: 'sluice', mode: 'nftables', store: 'nft' },
];

/** A node whose rules a proxy wrote before it ended, and a bundle of the same cluster. */
export interface DumpedNode extends DumpKind {
  readonly node: WiredNode;
  readonly dump: Dump;
  readonly files: BundleFiles;
  readonly observe: () => Promise<Observation>;
  readonly close: () => Promise<void>;
}

/** The objects of a cluster with those that mark the end of its first change. */
export const withFence = (cluster: readonly KubeItem[]): readonly KubeItem[] => [...cluster, ...fenceOf(1)];

/** @param dir an empty directory */
export async function dumpedNode(
  kind: DumpKind,
  { kubeProxy, wire, minor }: ParityPrograms,
  cluster: readonly KubeItem[],
  dir: string,
): Promise<DumpedNode> {
  const setting = { title: kind.title, config: { mode: kind.mode } };
  const renderer = new Renderer(setting, minor, `${dir}/renderer`);
  await renderer.render(withFence(cluster));
  const files = readTree(renderer.bundle) as BundleFiles;
  const { node, close } =
    kind.of === 'sluice'
      ? await sluices(renderer, wire, `${dir}/node`)
      : await KubeProxyNode.start(kubeProxy, wire, setting, `${dir}/node`).then((proxy) => filled(proxy, cluster));
  const dump = { ...(await dumpOf(node)), store: kind.store };
  // The text of one store is that of the other.
  if (kind.store === 'legacy') await node.host.run(['/usr/sbin/nft', 'flush', 'ruleset']);
  const refused = await loadDump(node, dump);
  if (refused !== undefined) throw new Error(`the kernel refuses what it printed: ${refused}`);
  return { ...kind, node, dump, files, observe: () => observe(node, kind.store), close };
}

type Filled = Pick<DumpedNode, 'node' | 'close'>;

async function filled(proxy: KubeProxyNode, cluster: readonly KubeItem[]): Promise<Filled> {
  await proxy.put(cluster);
  await proxy.stop();
  return { node: proxy.node, close: () => proxy.node.close() };
}

async function sluices(renderer: Renderer, wire: string, dir: string): Promise<Filled> {
  const sluice = await SluiceNode.start('tree', renderer, wire, dir);
  await sluice.put();
  return { node: sluice.node, close: () => sluice.close() };
}
