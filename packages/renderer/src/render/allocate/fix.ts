import { addAll, compareText, familyOfAddress, type Problem, refusal } from '@sluice/netfilter';
import { enterAllocations, enterTaken, numbersOf, openLedger } from './ledger.ts';
import { namesOf, type NumberRange, type RangeConfig, rangesOf } from './range.ts';
import { type AllocationRun, takeFree } from './allocate.ts';
import { seedOf, serviceName, type Taken } from './request.ts';
import type { Allocation } from './allocation.ts';

/** A replaced number of a Service. */
interface Move {
  /** `shop/web`. */
  readonly service: string;
  readonly from: string | number;
  readonly to: string | number;
}

interface FixedAllocations {
  /** The changed files, by `namespace/name`. */
  readonly moved: readonly Allocation[];
  readonly moves: readonly Move[];
  readonly problems: readonly Problem[];
}

/**
 * Resolves conflicts between allocation files: the Service whose number the base branch does not have gets another one, because no
 * client uses its number yet. If the base branch has neither, the first Service by name keeps it.
 * @param current the files of this branch, after a merge
 * @param base the files of the branch that it is merged into
 * @param taken numbers in use otherwise, such as addresses in manifests
 * @returns `ALLOCATION_CONFLICT` when the base branch itself has a number twice: both are in use, so the operator must choose
 */
export function fixAllocations(
  current: readonly Allocation[],
  base: readonly Allocation[],
  config: RangeConfig,
  taken: Taken = { addresses: new Set(), nodePorts: new Set() },
): FixedAllocations {
  const ledger = openLedger();
  enterAllocations(ledger, [...base, ...current]);
  enterTaken(ledger, taken);
  const problems: Problem[] = [];
  const run: AllocationRun = { ledger, ranges: rangesOf(config), problems };
  const leaving = Map.groupBy(movesNeeded(current, base, problems), ({ allocation }) => allocation);
  const moved: Allocation[] = [];
  const moves: Move[] = [];
  for (const [allocation, numbers] of [...leaving].toSorted(([a], [b]) =>
    compareText(serviceName(a), serviceName(b)),
  )) {
    let now = allocation;
    for (const { number: from } of numbers) {
      const to = replacement(run, now, from);
      if (to === undefined) continue;
      moves.push({ service: serviceName(allocation), from, to });
      now = replaced(now, from, to);
    }
    if (now !== allocation) moved.push(now);
  }
  return { moved, moves, problems };
}

interface Leaving {
  readonly allocation: Allocation;
  readonly number: string | number;
}

/** The numbers to replace, by the rule of `fixAllocations`. */
function movesNeeded(current: readonly Allocation[], base: readonly Allocation[], problems: Problem[]): Leaving[] {
  const before = new Map(base.map((allocation) => [serviceName(allocation), new Set(numbersOf(allocation))]));
  const sorted = current.toSorted((a, b) => compareText(serviceName(a), serviceName(b)));
  const pairs = sorted.flatMap((allocation) => numbersOf(allocation).map((number) => ({ allocation, number })));
  const leaving: Leaving[] = [];
  for (const [number, holders] of Map.groupBy(pairs, (pair) => pair.number)) {
    const old = holders.filter(({ allocation }) => before.get(serviceName(allocation))?.has(number));
    if (old.length > 1) problems.push(bothInUse(number, old));
    const staying = new Set(old.length > 0 ? old : holders.slice(0, 1));
    addAll(
      leaving,
      holders.filter((holder) => !staying.has(holder)),
    );
  }
  return leaving;
}

function bothInUse(number: string | number, holders: readonly Leaving[]): Problem {
  const files = holders.map(({ allocation }) => allocation.file ?? serviceName(allocation));
  const last = files.at(-1) ?? '';
  return refusal(
    'ALLOCATION_CONFLICT',
    `Cannot replace ${number} in one of ${files.join(' and ')}: the base branch has it in all of them`,
    'Decide which Service may change its number, delete that file, and render again',
    { at: { file: last, line: 1, column: 1 } },
  );
}

/** A free number of the same kind, in the Service's own order. */
function replacement(run: AllocationRun, allocation: Allocation, from: string | number): string | number | undefined {
  const service = serviceName(allocation);
  if (typeof from === 'string') {
    const family = familyOfAddress(from) ?? 'ipv4';
    return takeNext(run, allocation, run.ranges.addresses[family] ?? [], seedOf.address(service, family));
  }
  const key = Object.keys(allocation.nodePorts)
    .toSorted(compareText)
    .find((name) => allocation.nodePorts[name] === from);
  const seed = key === undefined ? seedOf.healthCheckNodePort(service) : seedOf.nodePort(service, key);
  return takeNext(run, allocation, [run.ranges.ports], seed);
}

function takeNext<T extends string | number>(
  run: AllocationRun,
  allocation: Allocation,
  ranges: readonly NumberRange<T>[],
  seed: string,
): T | undefined {
  const why = ranges.length > 0 ? `all of ${namesOf(ranges)} are in use` : 'there is no service CIDR of this family';
  const at = allocation.file === undefined ? undefined : { file: allocation.file, line: 1, column: 1 };
  return takeFree(run, serviceName(allocation), ranges, seed, `Cannot replace a number: ${why}`, at);
}

/** The allocation with every `from` replaced by `to`; ports that share a number still share one. */
function replaced(allocation: Allocation, from: string | number, to: string | number): Allocation {
  const swap = <T extends string | number>(value: T): T => (value === from ? (to as T) : value);
  const { healthCheckNodePort } = allocation;
  return {
    ...allocation,
    clusterIPs: allocation.clusterIPs.map(swap),
    nodePorts: Object.fromEntries(Object.entries(allocation.nodePorts).map(([key, port]) => [key, swap(port)])),
    ...(healthCheckNodePort !== undefined && { healthCheckNodePort: swap(healthCheckNodePort) }),
  };
}
