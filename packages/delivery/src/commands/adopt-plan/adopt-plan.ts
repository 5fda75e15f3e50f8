import { readFileSync } from 'node:fs';
import type { ParityReport, WaveSpec } from '@sluice/bundle';
import type { Format } from '@sluice/cli';
import { type Problem, terminalText } from '@sluice/netfilter';
import { replaceFile } from '@sluice/renderer/emit/file.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { type AdoptCandidate, type AdoptPlan, planAdoption, waveSpecsOf } from '../../fleet/adopt-plan.ts';
import { reading, Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
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

/** Prints a file of waves as `sluice release --wave` reads it. */
export function printWaveSpecs(waves: readonly WaveSpec[]): string {
  const lines = waves.map(({ name, nodes }) => {
    const list =
      nodes === 'rest' ? ' rest\n' : `\n${nodes.map((node) => `      - ${JSON.stringify(node)}\n`).join('')}`;
    return `  - name: ${JSON.stringify(name)}\n    nodes:${list}`;
  });
  return `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves:\n${lines.join('')}`;
}

/**
 * Reads the labels of Nodes.
 * @param text as `kubectl get nodes -o json` prints it
 * @returns node → its labels; undefined where it is not such a list
 */
export function readNodeLabels(text: string): ReadonlyMap<string, ReadonlyMap<string, string>> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { items } = (value ?? {}) as { readonly items?: unknown };
  if (!Array.isArray(items) || items.length > nodesMax) return undefined;
  const labels = new Map<string, ReadonlyMap<string, string>>();
  for (const item of items as readonly unknown[]) {
    const { kind, metadata } = (item ?? {}) as { readonly kind?: unknown; readonly metadata?: unknown };
    const { name, labels: own = {} } = (metadata ?? {}) as { readonly name?: unknown; readonly labels?: object };
    if (kind !== 'Node' || typeof name !== 'string' || !/^[a-z0-9][-a-z0-9.]{0,252}$/.test(name)) return undefined;
    const texts = Object.entries(own).flatMap(([key, one]) => (typeof one === 'string' ? [[key, one] as const] : []));
    labels.set(name, new Map(texts));
  }
  return labels;
}

/** More than Kubernetes supports (15,000 with etcd; large clusters with other stores have 100,000). */
const nodesMax = 200_000;
