import { type ParityReport, printWaves } from '@sluice/bundle';
import type { Format } from '@sluice/cli';
import { terminalText } from '@sluice/netfilter';
import { replaceFile } from '@sluice/renderer/emit/file.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { type AdoptCandidate, type AdoptPlan, planAdoption, waveSpecsOf } from '../../fleet/adopt-plan.ts';
import { writing } from '@sluice/renderer/commands/failure/failure.ts';
import { labelsOf } from '../input/node-labels.ts';
import { readReports } from '../input/parity-reports.ts';
import { printDocument } from '@sluice/renderer/commands/output/output.ts';
import { print, say } from '@sluice/renderer/commands/output/progress.ts';

interface AdoptPlanOptions {
  readonly output: Format;
  readonly nodes?: string;
  readonly by?: readonly string[];
  readonly waves?: string;
  /** Nodes in a wave. */
  readonly most?: number;
}

const defaultLabels = ['topology.kubernetes.io/zone'];

/** `sluice adopt-plan`: the waves in which a fleet moves from kube-proxy. */
export function adoptPlanCommand(
  files: readonly string[],
  { output, nodes, by = defaultLabels, waves, most }: AdoptPlanOptions,
): number {
  const reports = readReports(files);
  const labels = nodes === undefined ? undefined : labelsOf(nodes);
  const names = new Set([...reports.keys(), ...(labels?.keys() ?? [])]);
  const plan = planAdoption(
    [...names].map((node) => candidateOf(node, reports, labels, by)),
    most,
  );
  if (waves !== undefined) {
    writing(waves, () => replaceFile(waves, printWaves(waveSpecsOf(plan))));
    say(`${waves}: ${waveSpecsOf(plan).length} waves\n`);
  }
  if (output === 'text') print(adoptPlanText(plan));
  printDocument(output, 'AdoptPlan', plan);
  return plan.blocked.length === 0 ? exitCodes.done : exitCodes.different;
}

function candidateOf(
  node: string,
  reports: ReadonlyMap<string, ParityReport>,
  labels: ReadonlyMap<string, ReadonlyMap<string, string>> | undefined,
  by: readonly string[],
): AdoptCandidate {
  const own = labels === undefined ? new Map<string, string>() : labels.get(node);
  const group = own && by.map((label) => own.get(label) ?? '-').join(', ');
  return { node, report: reports.get(node), group };
}

/** Prints the waves, a line for each, and the nodes in none of them with the reason. */
export function adoptPlanText({ waves, blocked }: AdoptPlan): string {
  const width = Math.max(10, ...waves.map(({ name }) => name.length));
  const lines = [
    ...waves.map(({ name, nodes }, at) => `wave ${at + 1}  ${name.padEnd(width)}  ${nodes.join(' ')}`),
    ...(blocked.length === 0 ? [] : [`in no wave: ${blocked.length}`]),
    ...blocked.map(({ node, why }) => `  ${node}  ${why}`),
  ];
  // A report may be from elsewhere, and reasons have its names and rules.
  return lines.map((line) => `${terminalText(line)}\n`).join('');
}
