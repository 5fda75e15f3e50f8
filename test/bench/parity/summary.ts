import { median } from '../measure.ts';
import type { Round, Steady } from './round.ts';

/** Processor time in milliseconds. */
export interface ChangeCpu {
  /** Of a usual change: the mean of the middle half. Single values are known to 10 ms, so that their median would be, too. */
  readonly usual: number;
  readonly mean: number;
  /** What all changes of a round took beyond that many usual ones: work that comes once after a start, and rarely. */
  readonly once: number;
}

/** The rounds of one subject as figures: times in milliseconds, memory in MiB. */
export interface BenchSummary {
  /** Medians and the worst, over all rounds. */
  readonly cold: { readonly median: number; readonly worst: number };
  readonly endpoint: { readonly p50: number; readonly p90: number; readonly worst: number; readonly count: number };
  /** Processor time of a change by program, including the background work of the program. */
  readonly cpuPerChange: Readonly<Record<string, ChangeCpu>>;
  readonly coldCpu: Readonly<Record<string, number>>;
  readonly residentMb: Readonly<Record<string, number>>;
  /** Of that, what is not of a file. */
  readonly ownMb: Readonly<Record<string, number>>;
  /** Resident, with the program's part alone of pages that processes share: what they are together on a node. */
  readonly proportionalMb: Readonly<Record<string, number>>;
  /** Before the changes. */
  readonly residentBeforeMb: Readonly<Record<string, number>>;
  readonly peakMb: Readonly<Record<string, number>>;
  readonly mostMb: number;
  readonly packets: { readonly sent: number; readonly lost: number };
  /** The worst of all rounds. @see Round.filesMs */
  readonly filesMs: number;
  readonly steady?: {
    readonly changesPerSecond: number;
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly worst: number;
    /** Medians of the first and the last quarter: what grows has a longer last one. */
    readonly first: number;
    readonly last: number;
    /** In per cent of one processor. */
    readonly cpu: Readonly<Record<string, number>>;
    /** @see Steady.residentMb */
    readonly residentMb: Steady['residentMb'];
  };
}

/** @param rounds at least one */
export function summarise(rounds: readonly Round[]): BenchSummary {
  const latencies = rounds.flatMap((round) => round.latencies);
  const steadies = rounds.flatMap(({ steady }) => (steady ? [steady] : []));
  return {
    cold: { median: median(rounds.map(({ cold }) => cold)), worst: Math.max(...rounds.map(({ cold }) => cold)) },
    endpoint: { ...spread(latencies), count: latencies.length },
    cpuPerChange: cpuPerChange(rounds),
    coldCpu: byProgram(rounds, ({ coldCpu }) => coldCpu, median),
    residentMb: byProgram(rounds, ({ memory }) => memoryOf(memory, 'residentMb'), median),
    ownMb: byProgram(rounds, ({ memory }) => memoryOf(memory, 'ownMb'), median),
    proportionalMb: byProgram(rounds, ({ memory }) => memoryOf(memory, 'proportionalMb'), median),
    residentBeforeMb: byProgram(rounds, ({ before }) => memoryOf(before, 'residentMb'), median),
    peakMb: byProgram(
      rounds,
      ({ memory }) => memoryOf(memory, 'peakMb'),
      (values) => Math.max(...values),
    ),
    mostMb: Math.max(...rounds.map(({ mostMb }) => mostMb)),
    filesMs: Math.max(...rounds.map(({ filesMs }) => filesMs)),
    packets: {
      sent: sum(rounds.map(({ packets }) => packets.sent)),
      lost: sum(rounds.map(({ packets }) => packets.lost)),
    },
    ...(steadies.length > 0 && { steady: summariseSteady(steadies) }),
  };
}

function summariseSteady(steadies: readonly Steady[]): NonNullable<BenchSummary['steady']> {
  const seconds = sum(steadies.map((steady) => steady.seconds));
  const cpu = byProgram(
    steadies,
    (steady) => steady.cpu,
    (values) => sum(values) / seconds / 10,
  );
  const changesPerSecond = sum(steadies.map(({ sent }) => sent)) / seconds;
  const quarter = (latencies: readonly number[]): number => Math.ceil(latencies.length / 4);
  return {
    changesPerSecond,
    ...spread(steadies.flatMap(({ latencies }) => latencies)),
    first: median(steadies.flatMap(({ latencies }) => latencies.slice(0, quarter(latencies)))),
    last: median(steadies.flatMap(({ latencies }) => latencies.slice(-quarter(latencies)))),
    cpu,
    residentMb: Object.assign({}, ...steadies.map(({ residentMb }) => residentMb)),
  };
}

/** The nearest rank of the percentile. */
function spread(values: readonly number[]) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), worst: at(1) };
}

const sum = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0);

function cpuPerChange(rounds: readonly Round[]): Readonly<Record<string, ChangeCpu>> {
  const all = rounds.flatMap(({ changesCpu }) => changesCpu);
  const names = new Set(all.flatMap((one) => Object.keys(one)));
  return Object.fromEntries([...names].map((name) => [name, changeCpu(all, name, rounds.length)]));
}

function changeCpu(all: Round['changesCpu'], name: string, rounds: number): ChangeCpu {
  const sorted = all.map((one) => one[name] ?? 0).toSorted((a, b) => a - b);
  const quarter = Math.floor(sorted.length / 4);
  const middle = sorted.slice(quarter, sorted.length - quarter);
  const usual = sum(middle) / middle.length;
  return { usual, mean: sum(sorted) / sorted.length, once: (sum(sorted) - usual * sorted.length) / rounds };
}

const memoryOf = (memory: Round['memory'], key: keyof Round['memory'][string]): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(memory).map(([name, values]) => [name, values[key]]));

function byProgram<T>(
  all: readonly T[],
  values: (one: T) => Readonly<Record<string, number>>,
  join: (values: readonly number[]) => number,
): Readonly<Record<string, number>> {
  const names = new Set(all.flatMap((one) => Object.keys(values(one))));
  return Object.fromEntries([...names].map((name) => [name, join(all.map((one) => values(one)[name] ?? 0))]));
}
