import { median } from '../measure.ts';
import type { Round, Steady } from './round.ts';

/** The rounds of one subject as figures: times in milliseconds, memory in MiB. */
export interface BenchSummary {
  /** Medians and the worst, over all rounds. */
  readonly cold: { readonly median: number; readonly worst: number };
  readonly endpoint: { readonly p50: number; readonly p90: number; readonly worst: number; readonly count: number };
  /** Processor time of a change, by program, including the background work of the program. */
  readonly cpuPerChange: Readonly<Record<string, number>>;
  readonly coldCpu: Readonly<Record<string, number>>;
  readonly residentMb: Readonly<Record<string, number>>;
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
    /** Resident memory of each program before and after. */
    readonly residentMb: Readonly<Record<string, readonly [before: number, after: number]>>;
  };
}

/** @param rounds at least one */
export function summarise(rounds: readonly Round[]): BenchSummary {
  const latencies = rounds.flatMap((round) => round.latencies);
  const steadies = rounds.flatMap(({ steady }) => (steady ? [steady] : []));
  return {
    cold: { median: median(rounds.map(({ cold }) => cold)), worst: Math.max(...rounds.map(({ cold }) => cold)) },
    endpoint: { ...spread(latencies), count: latencies.length },
    cpuPerChange: byProgram(
      rounds,
      ({ changesCpu }) => changesCpu,
      (values) => sum(values) / latencies.length,
    ),
    coldCpu: byProgram(rounds, ({ coldCpu }) => coldCpu, median),
    residentMb: byProgram(rounds, (round) => memoryOf(round, 'residentMb'), median),
    peakMb: byProgram(
      rounds,
      (round) => memoryOf(round, 'peakMb'),
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

const memoryOf = ({ memory }: Round, key: 'residentMb' | 'peakMb'): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(memory).map(([name, values]) => [name, values[key]]));

function byProgram<T>(
  all: readonly T[],
  values: (one: T) => Readonly<Record<string, number>>,
  join: (values: readonly number[]) => number,
): Readonly<Record<string, number>> {
  const names = new Set(all.flatMap((one) => Object.keys(values(one))));
  return Object.fromEntries([...names].map((name) => [name, join(all.map((one) => values(one)[name] ?? 0))]));
}
