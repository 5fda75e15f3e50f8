import { compareText } from '@sluice/netfilter';
import type { ParityReport, Wave } from '@sluice/bundle';

/** The order in which the nodes of a fleet move from kube-proxy, by what comparisons said. */
export interface AdoptPlan {
  readonly waves: readonly AdoptWave[];
  /** Nodes that are in no wave, sorted, each with why. */
  readonly blocked: readonly BlockedNode[];
}

interface AdoptWave {
  /** With a number where a wave is in parts: `equivalent-2`. */
  readonly name: `${'canary' | 'equivalent' | 'documented'}${'' | `-${number}`}`;
  /** Sorted. */
  readonly nodes: readonly string[];
}

interface BlockedNode {
  readonly node: string;
  readonly why: string;
}

/** What is known of a node: its report, and the group that it is in, such as `zone-a, pool-1`; undefined: the cluster has no such Node. */
export interface AdoptCandidate {
  readonly node: string;
  /** Undefined: it was not compared. */
  readonly report: ParityReport | undefined;
  readonly group: string | undefined;
}

/**
 * Plans the waves:
 *
 * ```
 * canary       of each group the first equivalent node, else the first one whose differences are documented
 * equivalent   the other nodes that no packet shows a difference of
 * documented   nodes with documented differences of modes alone
 * blocked      nodes that were not compared, not wholly, or that differ otherwise, and reports of no Node: to be mended, or accepted one by one
 * ```
 *
 * @param most nodes in a wave: larger ones are in parts
 */
export function planAdoption(candidates: readonly AdoptCandidate[], most = Number.POSITIVE_INFINITY): AdoptPlan {
  const sorted = candidates.toSorted((a, b) => compareText(a.node, b.node));
  const judged = sorted.map((one) => ({ ...one, ...judge(one) }));
  const movable = judged.filter(({ rank }) => rank !== 'blocked');
  const canaries = new Set(
    [...Map.groupBy(movable, ({ group }) => group).values()].map(
      (group) => (group.find(({ rank }) => rank === 'equivalent') ?? group[0])?.node,
    ),
  );
  const wave = (name: AdoptWave['name'], isIn: (one: (typeof judged)[number]) => boolean): readonly AdoptWave[] =>
    inParts(
      name,
      movable.filter(isIn).map(({ node }) => node),
      most,
    );
  const waves = [
    ...wave('canary', ({ node }) => canaries.has(node)),
    ...wave('equivalent', ({ node, rank }) => rank === 'equivalent' && !canaries.has(node)),
    ...wave('documented', ({ node, rank }) => rank === 'documented' && !canaries.has(node)),
  ];
  const blocked = judged.flatMap(({ node, rank, why }) => (rank === 'blocked' ? [{ node, why }] : []));
  return { waves, blocked };
}

/** `equivalent`, `equivalent-2`, …; none without nodes. */
function inParts(name: AdoptWave['name'], nodes: readonly string[], most: number): readonly AdoptWave[] {
  const count = most === Number.POSITIVE_INFINITY ? Math.min(1, nodes.length) : Math.ceil(nodes.length / most);
  return Array.from({ length: count }, (_, at) => ({
    name: (at === 0 ? name : `${name}-${at + 1}`) as AdoptWave['name'],
    nodes: count === 1 ? nodes : nodes.slice(at * most, (at + 1) * most),
  }));
}

/** The waves as `sluice release --wave` takes them: blocked nodes are in a last one, which is not to be opened before they are mended. */
export const waveSpecsOf = ({ waves, blocked }: AdoptPlan): readonly Wave[] =>
  blocked.length === 0 ? waves : [...waves, { name: 'blocked', nodes: blocked.map(({ node }) => node) }];

interface Judgement {
  readonly rank: 'equivalent' | 'documented' | 'blocked';
  readonly why: string;
}

function judge({ report, group }: AdoptCandidate): Judgement {
  if (group === undefined) return { rank: 'blocked', why: 'it is not among the Nodes of the cluster' };
  if (report?.base) return { rank: 'blocked', why: 'its report leaves differences out: compare without --base' };
  if (!report) return { rank: 'blocked', why: 'no report: it was not compared' };
  const { coverage, differences } = report;
  const [first, ...others] = differences.filter(({ cause }) => cause !== 'mode');
  if (first) {
    const more = others.length === 0 ? '' : `, and ${others.length} more`;
    return { rank: 'blocked', why: `${first.cause}: ${[...first.services, first.frontend].join(' ')}${more}` };
  }
  const gap = coverage.notCovered.find(({ matters }) => matters);
  if (gap) return { rank: 'blocked', why: `incomplete: ${gap.what} (${gap.why})` };
  if (differences.length === 0) return { rank: 'equivalent', why: '' };
  const codes = [...new Set(differences.map(({ code }) => code ?? 'mode'))].toSorted(compareText);
  return { rank: 'documented', why: codes.join(', ') };
}
