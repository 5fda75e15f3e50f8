import { ratio } from '../measure.ts';
import type { BenchSummary, ChangeCpu } from './summary.ts';

/** Figures of all subjects as text: one line each, with ratios to the first. */
export function tableOf(summaries: ReadonlyMap<string, BenchSummary>): string {
  const [first] = summaries.values();
  if (first === undefined) return 'no round was completed\n';
  const rows = [...summaries].map(([name, summary]) => [name, ...cellsOf(summary, first)]);
  const all = [titles, ...rows];
  const widths = titles.map((_title, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
      .join('  ');
  return `${all.map(line).join('\n')}\n${legend}${diskLine(summaries)}${steadyLines(summaries)}`;
}

const legend = `CPU a change: both programs and their tools, the mean of the middle half of the changes; node + cluster: the same for each of them; mean: of all; once: what all changes of a start took beyond that many usual ones
resident, own (not of a file), shared once (pages that processes share count once): of the programs on the node; in the cluster: of sluice watch for all nodes
`;

function diskLine(summaries: ReadonlyMap<string, BenchSummary>): string {
  const worst = Math.max(...[...summaries.values()].map(({ filesMs }) => filesMs));
  const isSlow = worst > slowFilesMs;
  return `creating 1,000 files before a start took at most ${worst.toFixed(0)} ms of a processor${isSlow ? ': the disk was busy with something else, which starts of Sluice meet, too' : ''}\n`;
}

/** Some 50 ms on an idle ext4, 10 ms in memory. */
const slowFilesMs = 100;

const titles = [
  'times in ms, memory in MiB',
  'cold start',
  'worst',
  'endpoint p50',
  'p90',
  'worst',
  'CPU a change',
  'node + cluster',
  'mean',
  'once',
  'CPU of the start',
  'resident',
  'own',
  'shared once',
  'in the cluster',
  'peak',
  'with tools',
  'lost packets',
];

const sum = (values: Readonly<Record<string, number>>): number =>
  Object.values(values).reduce((total, one) => total + one, 0);

/** Programs that run on each node; `sluice watch` without `--node` runs once in a cluster. */
const isOfNode = (program: string): boolean => program !== 'sluice watch';

function parts(values: Readonly<Record<string, number>>): { readonly node: number; readonly cluster: number } {
  const of = (isWanted: (name: string) => boolean): number =>
    sum(Object.fromEntries(Object.entries(values).filter(([name]) => isWanted(name))));
  return { node: of(isOfNode), cluster: of((name) => !isOfNode(name)) };
}

const changeOf = ({ cpuPerChange }: BenchSummary, key: keyof ChangeCpu): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(cpuPerChange).map(([name, one]) => [name, one[key]]));

/** `38 + 7`: on each node, and once in a cluster. */
function both(values: Readonly<Record<string, number>>, digits = 0): string {
  const { node, cluster } = parts(values);
  return cluster === 0 ? node.toFixed(digits) : `${node.toFixed(digits)} + ${cluster.toFixed(digits)}`;
}

function cellsOf(own: BenchSummary, first: BenchSummary): readonly string[] {
  const against = (value: (summary: BenchSummary) => number, digits = 0): string => {
    const text = value(own).toFixed(digits);
    return own === first ? text : `${text} ${ratio(value(own), value(first))}`;
  };
  return [
    against(({ cold }) => cold.median),
    own.cold.worst.toFixed(0),
    against(({ endpoint }) => endpoint.p50),
    against(({ endpoint }) => endpoint.p90),
    own.endpoint.worst.toFixed(0),
    against((summary) => sum(changeOf(summary, 'usual')), 1),
    both(changeOf(own, 'usual'), 1),
    both(changeOf(own, 'mean'), 1),
    both(changeOf(own, 'once')),
    against(({ coldCpu }) => parts(coldCpu).node),
    against(({ residentMb }) => parts(residentMb).node),
    parts(own.ownMb).node.toFixed(0),
    against(({ proportionalMb }) => parts(proportionalMb).node),
    parts(own.residentMb).cluster === 0 ? '-' : parts(own.residentMb).cluster.toFixed(0),
    against(({ peakMb }) => parts(peakMb).node),
    own.mostMb.toFixed(0),
    `${own.packets.lost} of ${own.packets.sent}`,
  ];
}

function steadyLines(summaries: ReadonlyMap<string, BenchSummary>): string {
  const lines = [...summaries].flatMap(([name, { steady }]) => {
    if (steady === undefined) return [];
    const cpu = Object.entries(steady.cpu).map(([program, share]) => `${program} ${share.toFixed(1)} %`);
    const times = [steady.p50, steady.p90, steady.p99, steady.worst].map((time) => time.toFixed(0)).join(', ');
    const resident = Object.entries(steady.residentMb).map(
      ([program, values]) => `${program} ${values.map((one) => one.toFixed(0)).join(' ')} MiB`,
    );
    return [
      `${name}: ${steady.changesPerSecond.toFixed(0)} changes a second, endpoint p50, p90, p99, worst ${times} ms; p50 of the first quarter ${steady.first.toFixed(0)}, of the last ${steady.last.toFixed(0)} ms; ${cpu.join(', ')}; resident before and at each tenth: ${resident.join(', ')}\n`,
    ];
  });
  return lines.join('');
}
