import type { BundleFiles, Family } from '@sluice/bundle';
import { afterAll, expect, test } from 'vitest';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { type BundleDiff, diffBundles } from '../../packages/renderer/src/review/diff.ts';
import { proveBundle } from '../../packages/renderer/src/review/prove.ts';
import { viewOf } from '../../packages/renderer/src/review/view.ts';
import { listExamples } from '../../tools/examples.ts';
import { mutate, randomOf } from './mutate.ts';
import { behaviour, packetsFor, type WholeNode, wholeNodes } from './oracle.ts';

const soak = process.env['SLUICE_SOAK'] === '1';
const seed = Number(process.env['SLUICE_SEED'] ?? 20_261_121);
const mutants = soak ? 1_000 : 100;
const packetsPerNode = soak ? 600 : 250;

const bundles = listExamples().flatMap(({ name, output }) => {
  const files = readTree(output);
  if (!(files instanceof Map)) return [];
  const isFollowed = 'index' in viewOf(files as BundleFiles);
  return isFollowed ? [{ name, files: files as BundleFiles }] : [];
});

/** How often each case came up, so that a run in which nothing ever changes is found out. */
const met = { changing: 0, neutral: 0, refused: 0 };

test.each(Array.from({ length: mutants }, (_, n) => n))(
  'mutant %i of seed ' + seed + ' is seen for what it is',
  (n) => {
    const random = randomOf(seed + n);
    const { name, files } = bundles[n % bundles.length]!;
    const mutant = mutate(files, random);
    const about = `${name}: ${mutant.what}`;
    const diff = diffBundles(files, mutant.files);
    const proof = proveBundle(mutant.files);
    const difference = findDifference(files, mutant.files, random);
    if (difference === 'refused') {
      met.refused++;
      expect('counterExamples' in proof, `${about}: nodes refuse it, and prove must`).toBe(false);
      return;
    }
    if (!('flows' in diff)) throw new Error(`${about}: ${diff[0]?.message}`);
    if (!('counterExamples' in proof)) throw new Error(`${about}: ${proof[0]?.message}`);
    expectTrueFlows(diff, files, mutant.files, about);
    const isChanging = difference !== undefined || diff.flows.length > 0;
    met[isChanging ? 'changing' : 'neutral']++;
    if (difference !== undefined) expect(diff.flows.length, `${about}: ${difference}`).toBeGreaterThan(0);
    const isProved = proof.counterExamples.length === 0;
    // Which endpoints hints choose is not declared: a choice that is still fair among them passes.
    if (isChanging && !proof.hinted.some((service) => mutant.what.includes(`/${service}.`))) {
      expect(isProved, `${about}: ${difference ?? diff.flows[0]?.new.key}`).toBe(false);
    }
    if (!isChanging) expect(proof.counterExamples, about).toEqual([]);
  },
);

afterAll(() => {
  expect(met.changing, JSON.stringify(met)).toBeGreaterThan(mutants / 10);
  expect(met.neutral, JSON.stringify(met)).toBeGreaterThan(0);
});

/** A random packet that the whole programs of both bundles treat differently; `refused` when a node takes neither. */
function findDifference(old: BundleFiles, fresh: BundleFiles, random: () => number): string | undefined {
  for (const family of ['ipv4', 'ipv6'] as const) {
    const [before, after] = [wholeNodes(old, family), wholeNodes(fresh, family)];
    if (!before || !after) return 'refused';
    for (const [at, node] of before.entries()) {
      for (const packet of packetsFor([old, fresh], family, node, packetsPerNode, random)) {
        const [was, is] = [behaviour(node, packet), behaviour(after[at] as WholeNode, packet)];
        if (was !== is) return `${node.name} ${JSON.stringify(packet)}: ${was} → ${is}`;
      }
    }
  }
  return undefined;
}

/** The example packet of every changed flow is treated differently by the whole programs too, on every node of its group. */
function expectTrueFlows(diff: BundleDiff, old: BundleFiles, fresh: BundleFiles, about: string): void {
  const programs = new Map<Family, readonly [readonly WholeNode[], readonly WholeNode[]]>();
  for (const { family, nodes, packet } of diff.flows) {
    const both = programs.get(family) ?? ([wholeNodes(old, family)!, wholeNodes(fresh, family)!] as const);
    programs.set(family, both);
    const [before, after] = both.map((side) => side.find(({ name }) => name === nodes.nodes[0])!) as [
      WholeNode,
      WholeNode,
    ];
    expect(behaviour(before, packet), `${about}: ${JSON.stringify(packet)}`).not.toBe(behaviour(after, packet));
  }
}
