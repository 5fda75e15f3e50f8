import { readFileSync } from 'node:fs';
import type { Format } from '@sluice/cli';
import type { Problem } from '@sluice/netfilter';
import type { ParityReport } from '@sluice/bundle';
import { replaceFile } from '../../emit/file.ts';
import { adoptPlanText } from '../../emit/fleet/adopt-plan.ts';
import { printWaveSpecs } from '../../emit/fleet/adopt-plan.ts';
import { exitCodes } from '../../exit.ts';
import { type AdoptCandidate, planAdoption, waveSpecsOf } from '../../fleet/adopt-plan.ts';
import { readNodeLabels } from '../../fleet/node-labels.ts';
import { reading, Stopped, writing } from '../failure/failure.ts';
import { readReports } from '../input/parity-reports.ts';
import { printDocument } from '../output/output.ts';
import { print, say } from '../output/progress.ts';

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
    writing(waves, () => replaceFile(waves, printWaveSpecs(waveSpecsOf(plan))));
    say(`${waves}: ${waveSpecsOf(plan).length} waves\n`);
  }
  if (output === 'text') print(adoptPlanText(plan));
  printDocument(output, 'AdoptPlan', plan);
  return plan.blocked.length === 0 ? exitCodes.done : exitCodes.different;
}

function labelsOf(file: string): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const labels = readNodeLabels(reading(file, () => readFileSync(file, 'utf8')));
  if (labels === undefined) throw new Stopped(noNodes(file));
  return labels;
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

const noNodes = (file: string): Problem => ({
  code: 'INPUT_UNREADABLE',
  level: 'error',
  message: `Cannot use ${file}: it is no list of Nodes in JSON`,
  hint: 'Write it with `kubectl get nodes -o json`',
});
