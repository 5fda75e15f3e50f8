import type { BundleFiles } from '@sluice/bundle';
import type { Family } from '@sluice/netfilter';
import { atTier, randomOf, seed } from '@sluice/testing';
import { expect, test } from 'vitest';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { relevantTo } from '../../packages/review/src/bundle/relevance.ts';
import { type BundleView, viewOf } from '../../packages/review/src/bundle/view.ts';
import { Memory } from '../../packages/review/src/bundle/memory.ts';
import { traceOnNode } from '../../packages/review/src/trace/trace-node.ts';
import { listExamples } from '../../tools/examples.ts';
import { mutate } from './mutate.ts';
import { behaviour, packetsFor, type WholeNode, wholeNodes } from './oracle.ts';

const rounds = atTier({ quick: 1, test: 10, soak: 50 });
const packetsEach = atTier({ quick: 25, test: 100, soak: 500 });
const families = ['ipv4', 'ipv6'] as const satisfies readonly Family[];

const bundles = listExamples().flatMap(({ name, output }) => {
  const files = readTree(output);
  return files instanceof Map ? [{ name, files: files as BundleFiles }] : [];
});

function view(files: BundleFiles): BundleView {
  const made = viewOf(files);
  return made;
}

test.each(bundles)(`finds the files that affect one packet without reading all of them: $name`, ({ files }) => {
  const random = randomOf(seed);
  for (let round = 0; round < rounds; round++) {
    const some = round === 0 ? files : mutate(files, random).files;
    const whole = view(some);
    for (const [profile, { mode }] of whole.profiles) {
      for (const family of families) {
        const index = whole.index(profile, family);
        const keys = index.paths.flatMap((path) => {
          const { exact, ports, targets, inner } = index.matches(path);
          return [...exact, ...targets, ...inner, ...[...ports].map((port) => port.replace(' ', ' 192.0.2.11 '))];
        });
        for (const key of new Set([...keys.filter((one) => one.split(' ').length === 3), 'tcp 192.0.2.11 9'])) {
          const found = relevantTo(key, some, profile, mode, family, new Memory());
          expect({ key, found }).toEqual({ key, found: index.relevant(key) });
        }
      }
    }
  }
});

test.each(bundles)(`a packet takes the same path through these files as through all: $name`, ({ files }) => {
  const random = randomOf(seed);
  let met = 0;
  for (const family of families) {
    for (const node of wholeNodes(files, family) ?? []) {
      for (const packet of packetsFor([files], family, node, packetsEach, random)) {
        if (packet.in === undefined) continue;
        const { source, destination, protocol, port } = packet;
        const asked = { node: node.name, family, from: source, in: packet.in, destination, protocol, port };
        const some = traceOnNode(files, { ...asked, layout: 'flat' });
        expect({ packet, ways: pathText(some.ways) }).toEqual({ packet, ways: firstLine(node, some.packet) });
        if (some.ways.some(({ path }) => path.length > 0)) met++;
      }
    }
  }
  expect(met).toBeGreaterThan(0);
});

type TracedPaths = Extract<ReturnType<typeof traceOnNode>, { readonly ways: unknown }>['ways'];

/** In the words of the first line of `behaviour`. */
const pathText = (ways: TracedPaths): string =>
  ways
    .map((one) => `${one.verdict} ${one.to ?? ''} ${one.masquerade} ${one.probability.toFixed(7)}`)
    .toSorted()
    .join(' | ');

const firstLine = (node: WholeNode, packet: Parameters<typeof behaviour>[1]): string =>
  behaviour(node, packet).split('\n')[0]!;
