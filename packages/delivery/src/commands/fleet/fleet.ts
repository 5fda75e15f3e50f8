import { shortList } from '@sluice/netfilter';
import { dirname, relative } from 'node:path';
import { columns, document } from '@sluice/cli';
import { writeOutput } from '@sluice/renderer/emit/file.ts';
import { fleetHtml } from '../../emit/fleet/html.ts';
import { columnsOf, headLines, headline, nodesText } from '../../emit/fleet/words.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { type FleetStatus, isHealthyFleet, judgeFleet } from '../../fleet/fleet.ts';
import { nextStep } from '../../fleet/next.ts';
import { gatherEvidence } from '../evidence/evidence.ts';
import { receiptInput } from '../evidence/found.ts';
import { stagedRelease, targetOf } from '../evidence/target.ts';
import { writing } from '@sluice/renderer/commands/failure/failure.ts';
import { readReports } from '../input/parity-reports.ts';
import { print, say } from '@sluice/renderer/commands/output/progress.ts';

interface FleetOptions {
  readonly allowedReceipts: string;
  /** Results of `sluice parity`. */
  readonly parity?: readonly string[];
  /** A release directory. */
  readonly release?: string;
  /** A store of receipts, instead of a folder. */
  readonly from?: string;
  readonly plainHttp?: boolean;
  readonly output: 'text' | 'json' | 'html';
  /** The file to write instead of standard output. */
  readonly out?: string;
}

const printers = { text: fleetText, json: fleetJson, html: fleetHtml } as const;

/**
 * `sluice fleet`: prints the rollout state of every node. Exits with 1 unless all nodes are in the desired state.
 * @param dir a folder of receipts; undefined with `from`
 */
export async function fleetCommand(
  dir: string | undefined,
  { allowedReceipts, parity = [], release, output, out, ...store }: FleetOptions,
): Promise<number> {
  const target = release === undefined ? undefined : targetOf(stagedRelease(release));
  const input = receiptInput(dir, store) ?? { dir: '.' };
  const { evidence, foreignNodes } = await gatherEvidence(input, allowedReceipts, target?.nodes);
  const observed = new Map([...readReports(parity)].map(([node, { modes }]) => [node, modes.observed]));
  const fleet = judgeFleet(evidence, foreignNodes, target, observed);
  // Links are relative to the folder of the page; a page on standard output is assumed to be saved in the current directory.
  const text = printers[output](fleet, relative(out === undefined ? '.' : dirname(out), dir ?? '.'));
  if (out === undefined) print(text);
  else {
    writing(out, () => writeOutput(out, Buffer.from(text)));
    say(`${out}: ${headline(fleet)}\n`);
  }
  return isHealthyFleet(fleet) ? exitCodes.done : exitCodes.different;
}

/** Prints the fleet as JSON: the rows with their states and receipts. */
function fleetJson(fleet: FleetStatus): string {
  const { cluster, serial, newest, waves, counts, serving, rows, foreignNodes } = fleet;
  return document('Fleet', {
    cluster,
    serial,
    newest,
    next: nextStep(fleet),
    counts,
    serving,
    waves,
    nodes: rows.map(({ node, wave, state, why, receipt, observed }) => ({ node, wave, state, why, receipt, observed })),
    strangers: foreignNodes,
  });
}

const foreignNodesNamedMax = 10;

/** Prints the fleet as text: one line for each node, the worst first. */
function fleetText(fleet: FleetStatus): string {
  const waves = fleet.waves.map(
    ({ name, nodes, isOpen }, index) =>
      `wave ${index + 1} (${name}, ${nodesText(nodes)}) is ${isOpen ? 'open' : 'closed'}\n`,
  );
  const shown = columnsOf(fleet.rows);
  const rows = fleet.rows.map((row) => shown.map(({ cell }) => cell(row)));
  const table = columns([shown.map(({ title }) => title.toUpperCase()), ...rows]);
  const head = [headline(fleet), ...headLines(fleet)].map((line) => `${line}\n`);
  return `${head.join('')}${waves.join('')}\n${table}${foreignNodesText(fleet)}`;
}

function foreignNodesText({ foreignNodes }: FleetStatus): string {
  if (foreignNodes.length === 0) return '';
  return `\nignored receipts of nodes that are not in allowed_receipts: ${shortList(foreignNodes, foreignNodesNamedMax)}\n`;
}
