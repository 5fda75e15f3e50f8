import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BundleFiles, nodesOf, resolveNode } from '@sluice/bundle';
import { randomOf, seed } from '@sluice/testing';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { nftBundle } from '../../packages/review/src/nft.fixture.ts';
import { listExamples } from '../../tools/examples.ts';
import { newest } from '../parity/binaries.ts';
import { drawCluster, itemsOf } from '../parity/clusters.ts';
import { nftablesSettings } from '../parity/settings.ts';
import { Renderer } from '../parity/sluice-node.ts';
import { type LinkedNode, linkedNode } from './linked.ts';

/** Nodes of mode nftables to make mistakes in: of the examples, of the fixture, and of random clusters, each under another setting. */
export interface NamedNode {
  readonly title: string;
  readonly linked: LinkedNode;
}

const nodesIn = (title: string, files: BundleFiles): readonly NamedNode[] =>
  nodesOf(files).flatMap((node) => {
    const resolved = resolveNode(files, node);
    return 'nft' in resolved ? [{ title: `${title}, ${node}`, linked: linkedNode(files, node) }] : [];
  });

export function writtenNodes(): readonly NamedNode[] {
  const examples = listExamples().flatMap(({ name, output }) => {
    const files = readTree(output);
    return files instanceof Map ? nodesIn(name, files as BundleFiles) : [];
  });
  return [...examples, ...nodesIn('nft.fixture.ts', nftBundle)];
}

/** @param count of clusters @param services in each */
export async function generatedNodes(count: number, services: number): Promise<readonly NamedNode[]> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-mutants-'));
  try {
    const nodes: NamedNode[] = [];
    for (let index = 0; index < count; index++) {
      const setting = nftablesSettings[index % nftablesSettings.length]!;
      const renderer = new Renderer(setting, newest, join(dir, String(index)));
      await renderer.render(itemsOf(drawCluster(services, randomOf(seed + index))));
      nodes.push(...nodesIn(`cluster ${index}, ${setting.title}`, readTree(renderer.bundle) as BundleFiles));
    }
    return nodes;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}
