// @module-tag test
import { orProblems } from '../../packages/review/src/bundle/node.ts';
import type { BundleFiles } from '@sluice/bundle';
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { diffBundles } from '../../packages/review/src/diff/diff.ts';
import { isProved, proveBundle } from '../../packages/review/src/prove/prove.ts';
import { HeaderSpaceJudge } from './header-space.ts';
import {
  declared,
  differingKinds,
  type LinkedMutant,
  mutateLinked,
  neutralKinds,
  refusedKinds,
} from './linked-changes.ts';
import { generatedNodes, type NamedNode, writtenNodes } from './nft-bundles.ts';

/**
 * Mistakes in the linked text of nodes of mode nftables: `diff` and `prove` find each one that a packet shows, and no other. The judge
 * traces every packet of the header space of both tables, and shares nothing with them but the tracer, whose packets
 * `nft-mutants-packets.test.ts` sends.
 */

const mutants = atTier({ quick: 40, test: 400, all: 10_000 });
const clusters = atTier({ quick: 1, test: 3, all: 11 });
const kinds = [...differingKinds, ...refusedKinds, ...neutralKinds];

/** Of the packets that show one mistake, as many are traced again. */
const packetsMax = 20;

type Verdict = 'found' | 'neutral' | 'refused';
const met = new Map<string, Record<Verdict, number>>(kinds.map((kind) => [kind, { found: 0, neutral: 0, refused: 0 }]));

let nodes: readonly (NamedNode & { readonly judge: HeaderSpaceJudge })[];
beforeAll(async () => {
  const all = [...writtenNodes(), ...(await generatedNodes(clusters, 6))];
  nodes = all.map((one) => ({ ...one, judge: new HeaderSpaceJudge(one.linked.files) }));
}, 120_000);

test('the linked text of each node is proved, and its whole header space judged', () => {
  const wrong = nodes.filter(({ linked }) => {
    const proof = proveBundle(linked.files);
    if (!isProved(proof)) return true;
    return proof.profiles.some(({ headerSpace }) => headerSpace?.unjudged.length !== 0);
  });
  expect(wrong.map(({ title }) => title)).toEqual([]);
});

test.each(kinds.map((kind, at) => ({ kind, at })))(
  'mistakes of the kind: $kind',
  { timeout: 300_000 },
  ({ kind, at }) => {
    const count = Math.ceil(mutants / kinds.length);
    const random = randomOf(seed + at);
    const wrong: string[] = [];
    // Few mistakes of some kinds change what happens to a packet: which ones are drawn depends on the nodes.
    const isUnseen = (): boolean => differingKinds.includes(kind) && met.get(kind)!.found === 0;
    const isEnough = (n: number): boolean => n >= count && (n >= 20 * count || !isUnseen());
    for (let n = 0, tries = 0; !isEnough(n) && tries < 1_000 * count; tries++) {
      const { title, linked, judge } = nodes[Math.floor(random() * nodes.length)]!;
      const mutant = mutateLinked(linked, kind, random);
      if (!mutant) continue;
      n++;
      const mistake = misjudged(kind, linked.files, mutant, judge);
      if (mistake !== undefined) wrong.push(`${title}: ${mutant.what}\n  ${mistake}`);
    }
    expect(wrong).toEqual([]);
  },
);

/** A wrong verdict of `diff` or `prove` on a mutant. */
function misjudged(
  kind: string,
  before: BundleFiles,
  { files }: LinkedMutant,
  judge: HeaderSpaceJudge,
): string | undefined {
  const difference = judge.difference(files);
  const verdict = difference === undefined ? 'neutral' : difference === 'refused' ? 'refused' : 'found';
  met.get(kind)![verdict]++;
  const diff = orProblems(() => diffBundles(before, files));
  const proof = orProblems(() => proveBundle(files));
  const isTaken = 'flows' in diff && 'counterExamples' in proof;
  if (verdict === 'refused') return 'counterExamples' in proof ? 'prove takes what the node refuses' : undefined;
  if (!isTaken) return `diff or prove refuses what the node takes: ${JSON.stringify('flows' in diff ? proof : diff)}`;
  const [example] = kind === declared ? [] : proof.counterExamples;
  if (verdict === 'neutral') {
    if (diff.flows.length > 0) return `diff invents ${JSON.stringify(diff.flows[0]!.packet)}`;
    return example ? `prove invents ${JSON.stringify(example.packet)}: ${example.found.key}` : undefined;
  }
  if (diff.flows.length === 0) return `diff misses ${difference}`;
  if (!example && kind !== declared) return `prove misses ${difference}`;
  const packets = [...diff.flows, ...(example ? proof.counterExamples : [])].map(({ packet }) => packet);
  const invented = packets.slice(0, packetsMax).find((packet) => !judge.tells(files, packet));
  return invented && `the packet does not show it: ${JSON.stringify(invented)}`;
}

afterAll(() => {
  const rows = [...met].map(
    ([kind, { found, neutral, refused }]) => `${kind}: ${found} found, ${neutral} neutral, ${refused} refused`,
  );
  const all = [...met.values()].reduce((sum, { found, neutral, refused }) => sum + found + neutral + refused, 0);
  console.log([...rows, `${all} mutants`].join('\n'));
});

test('there are mistakes of each kind that a packet shows, and none of those that no packet shows or no node takes', () => {
  const shown = kinds.filter((kind) => met.get(kind)!.found > 0);
  expect(shown).toEqual(differingKinds);
  const taken = refusedKinds.filter((kind) => met.get(kind)!.refused === 0 || met.get(kind)!.neutral > 0);
  expect(taken).toEqual([]);
});
