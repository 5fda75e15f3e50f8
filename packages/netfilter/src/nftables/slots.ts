import type { NftFrontend } from './frontend.ts';
import { nftLimits } from './limits.ts';
import { maglevSizeOf, type MaglevSize } from './scheduler.ts';
import { hash } from 'node:crypto';
import { compareText } from '../problem.ts';

/** What the slots of a list follow from. */
type Chooser = Pick<NftFrontend, 'scheduler' | 'weights'>;

const known = new WeakMap<readonly string[], Chooser & { readonly slots: readonly string[] }>();

/**
 * The endpoint of each slot of a list. Without weights each endpoint has one, in the order of the list; with weights each has as many as
 * its share needs, spread over the list; of scheduler `maglev` the table.
 * @param list of the frontend: all endpoints, or the local ones
 */
export function slotsOf({ scheduler, weights }: Chooser, list: readonly string[]): readonly string[] {
  const size = maglevSizeOf(scheduler);
  if (size === undefined && weights === undefined) return list;
  const before = known.get(list);
  if (before?.scheduler === scheduler && before?.weights === weights) return before!.slots;
  const weightOf = (endpoint: string): number => weights?.get(endpoint) ?? 1;
  const slots = size === undefined ? spread(list, weightOf) : maglevTable(list, weightOf, size);
  known.set(list, { ...(scheduler ? { scheduler } : {}), ...(weights ? { weights } : {}), slots });
  return slots;
}

/** Each endpoint of a list that has slots, with their number, in the order of the list. */
export function slotCounts(chooser: Chooser, list: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map(list.map((endpoint) => [endpoint, 0]));
  for (const endpoint of slotsOf(chooser, list)) counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1);
  return new Map([...counts].filter(([, count]) => count > 0));
}

/** Endpoints as often as their weights say, so that each comes again after about equal distances. */
function spread(list: readonly string[], weightOf: (endpoint: string) => number): readonly string[] {
  const counts = slotShares(list.map(weightOf));
  if (counts.every((count) => count === 1)) return list;
  return list
    .flatMap((endpoint, place) => {
      const count = counts[place] ?? 1;
      return Array.from({ length: count }, (_, at) => ({ endpoint, place, when: (at + 0.5) / count }));
    })
    .toSorted((a, b) => a.when - b.when || a.place - b.place)
    .map(({ endpoint }) => endpoint);
}

/**
 * How many slots each endpoint of a list gets: its weight without common factors. Where these are more than a list may have, the nearest
 * numbers below, and at least one each.
 */
export function slotShares(weights: readonly number[]): readonly number[] {
  const divisor = weights.reduce(greatestCommonDivisor, 0) || 1;
  const reduced = weights.map((weight) => weight / divisor);
  const sum = reduced.reduce((all, one) => all + one, 0);
  const most = Math.min(nftLimits.endpointsMax, Math.max(nftLimits.weightedSlotsMax, 4 * weights.length));
  if (sum <= most) return reduced;
  // One slot for each endpoint comes off first, so that the sum stays within the bound.
  const rest = most - weights.length;
  return reduced.map((weight) => 1 + Math.floor((weight / sum) * rest));
}

const greatestCommonDivisor = (a: number, b: number): number => (b === 0 ? a : greatestCommonDivisor(b, a % b));

/** The walk of one endpoint through the slots of a table. */
interface Walk {
  readonly endpoint: string;
  readonly weight: number;
  readonly step: number;
  slot: number;
  /** The round, times the greatest weight, in which it takes its next slot. */
  due: number;
}

/**
 * The table of a list: the endpoint of each slot. Endpoints take turns, each the next free slot of a walk of its own, whose start and
 * step are the first two words of the SHA-256 of its text. So the table follows from the endpoints and their weights alone, on every
 * node and in any order; and most slots stay where they are when an endpoint comes or goes.
 *
 * Maglev: A Fast and Reliable Software Network Load Balancer (NSDI 2016), section 3.4; turns by weight as in Envoy's `maglev_lb.cc`.
 * @param endpoints each once; those beyond `size` get no slot
 * @param weightOf 1 or more
 */
export function maglevTable(
  endpoints: readonly string[],
  weightOf: (endpoint: string) => number,
  size: MaglevSize,
): readonly string[] {
  if (endpoints.length === 0) return [];
  const walks = endpoints.toSorted(compareText).map((endpoint) => walkOf(endpoint, weightOf(endpoint), size));
  const most = walks.reduce((greatest, { weight }) => Math.max(greatest, weight), 1);
  const table = Array.from({ length: size }, (): string | undefined => undefined);
  let free: number = size;
  for (let round = 1; free > 0; round++) {
    for (const walk of walks) {
      if (free === 0) break;
      if (round * walk.weight < walk.due) continue;
      walk.due += most;
      while (table[walk.slot] !== undefined) walk.slot = (walk.slot + walk.step) % size;
      table[walk.slot] = walk.endpoint;
      free--;
    }
  }
  return table as readonly string[];
}

function walkOf(endpoint: string, weight: number, size: MaglevSize): Walk {
  const digest = hash('sha256', endpoint, 'buffer');
  return {
    endpoint,
    weight,
    slot: digest.readUInt32BE(0) % size,
    step: (digest.readUInt32BE(4) % (size - 1)) + 1,
    due: 0,
  };
}
