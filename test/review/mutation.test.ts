import { orProblems } from '../../packages/review/src/bundle/node.ts';
import type { BundleFiles } from '@sluice/bundle';
import type { Family } from '@sluice/netfilter';
import { atTier, randomOf, reaches, seed } from '@sluice/testing';
import { expect, test } from 'vitest';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { type BundleDiff, diffBundles } from '../../packages/review/src/diff/diff.ts';
import { proveBundle } from '../../packages/review/src/prove/prove.ts';
import { nftBundle } from '../../packages/review/src/nft.fixture.ts';
import { listExamples } from '../../tools/examples.ts';
import { type MutatedBundle, mutate } from './mutate.ts';
import { behaviour, packetsFor, type WholeNode, wholeNodes } from './oracle.ts';

const mutants = atTier({ quick: 10, test: 100, soak: 1_000 });
const packetsPerNode = atTier({ quick: 250, soak: 600 });

const bundles = listExamples().flatMap(({ name, output }) => {
  const files = readTree(output);
  return files instanceof Map ? [{ name, files: files as BundleFiles }] : [];
});
/** Fewer examples have these modes, so they are drawn more often. */
const ofMode = (end: '.ipvs' | '.nft') =>
  bundles.filter(({ files }) => [...files.keys()].some((path) => path.endsWith(end)));
const [ofIpvs, ofNft] = [ofMode('.ipvs'), [...ofMode('.nft'), { name: 'nft.fixture.ts', files: nftBundle }]];

/** The count of each case, to detect a run in which nothing ever changes. */
const met = { changing: 0, neutral: 0, refused: 0 };

test.each(Array.from({ length: mutants }, (_, n) => n))(`classifies mutant %i correctly`, (n) => {
  const random = randomOf(seed + n);
  const among = [ofIpvs, ofNft, bundles][n % 3] ?? bundles;
  const { name, files } = among[Math.floor(n / 3) % among.length]!;
  const mutant = mutate(files, random);
  expect(misjudged(files, mutant, random), `${name}: ${mutant.what}`).toBeUndefined();
});

/** A wrong verdict of `diff` or `prove` on a mutant, judged by random packets through the whole programs. */
function misjudged(files: BundleFiles, mutant: MutatedBundle, random: () => number): string | undefined {
  const diff = orProblems(() => diffBundles(files, mutant.files));
  const proof = orProblems(() => proveBundle(mutant.files));
  const difference = findDifference(files, mutant.files, random);
  if (difference === 'refused') {
    met.refused++;
    return 'counterExamples' in proof ? 'prove takes what nodes refuse' : undefined;
  }
  if (!('flows' in diff)) return `diff: ${diff[0]?.message}`;
  if (!('counterExamples' in proof)) return `prove: ${proof[0]?.message}`;
  const isChanging = difference !== undefined || diff.flows.length > 0;
  met[isChanging ? 'changing' : 'neutral']++;
  if (difference !== undefined && diff.flows.length === 0) return `diff misses ${difference}`;
  const isProved = proof.counterExamples.length === 0;
  if (!isChanging)
    return isProved ? undefined : `prove refuses what changes nothing: ${proof.counterExamples[0]?.found.key}`;
  if (isProved) return `prove misses ${difference ?? diff.flows[0]?.new.key}`;
  return inventedFlow(diff, files, mutant.files);
}

test('enough of the mutants change something, and some change nothing', () => {
  // Tier quick has too few.
  if (!reaches('test')) return;
  expect(met.changing).toBeGreaterThan(mutants / 10);
  expect(met.neutral).toBeGreaterThan(0);
});

/** A random packet that the whole programs of both bundles treat differently; `refused` when a node refuses the new one. */
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

/** A changed flow whose example packet the whole programs treat the same; there must be none. */
function inventedFlow(diff: BundleDiff, old: BundleFiles, fresh: BundleFiles): string | undefined {
  const programs = new Map<Family, readonly (readonly WholeNode[])[]>();
  for (const { family, nodes, packet } of diff.flows) {
    const both = programs.get(family) ?? [old, fresh].map((files) => wholeNodes(files, family) ?? []);
    programs.set(family, both);
    const [before, after] = both.map((side) => side.find(({ name }) => name === nodes.nodes[0])!);
    if (behaviour(before!, packet) === behaviour(after!, packet)) return `diff invents ${JSON.stringify(packet)}`;
  }
  return undefined;
}
