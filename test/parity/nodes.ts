import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KubeItem } from './api-server.ts';
import { KubeProxyNode } from './kube-proxy-node.ts';
import type { ParityPrograms } from './programs.ts';
import type { ProxySetting } from './settings.ts';
import { type Layout, Renderer, SluiceNode } from './sluice-node.ts';

/** One node with kube-proxy, and one with Sluice for each layout. */
export interface ParityNodes {
  readonly theirs: KubeProxyNode;
  readonly ours: readonly SluiceNode[];
  /** Ends once all of them have every rule of the cluster. */
  readonly put: (cluster: readonly KubeItem[]) => Promise<void>;
}

/** Starts the nodes, and ends them in any case. */
export async function withNodes(
  { minor, kubeProxy, wire }: ParityPrograms,
  setting: ProxySetting,
  use: (nodes: ParityNodes) => Promise<void>,
  layouts: readonly Layout[] = ['flat', 'tree'],
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-parity-'));
  const renderer = new Renderer(setting, minor, join(dir, 'renderer'));
  const theirs = await KubeProxyNode.start(kubeProxy, wire, setting, join(dir, 'kube-proxy'));
  const ours: SluiceNode[] = [];
  try {
    for (const layout of layouts) ours.push(await SluiceNode.start(layout, renderer, wire, join(dir, layout)));
    await use({
      theirs,
      ours,
      put: async (cluster) => {
        const putting = theirs.put(cluster);
        await renderer.render(cluster);
        await Promise.all([putting, ...ours.map((node) => node.put())]);
      },
    });
  } finally {
    await Promise.all([theirs, ...ours].map((node) => node.close()));
    rmSync(dir, { recursive: true, force: true });
  }
}
