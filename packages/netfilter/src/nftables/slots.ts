import type { NftFrontend } from './frontend.ts';
import { nftLimits } from './limits.ts';
import { maglevTable } from './maglev.ts';
import { maglevSizeOf } from './scheduler.ts';

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
