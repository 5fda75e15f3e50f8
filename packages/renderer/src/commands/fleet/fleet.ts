import { dirname, relative } from 'node:path';
import { writeOutput } from '../../emit/file.ts';
import { fleetHtml } from '../../emit/fleet/html.ts';
import { fleetJson } from '../../emit/fleet/json.ts';
import { fleetText } from '../../emit/fleet/text.ts';
import { headline } from '../../emit/fleet/words.ts';
import { exitCodes } from '../../exit.ts';
import { isHealthyFleet, judgeFleet } from '../../fleet/fleet.ts';
import { gatherEvidence } from '../evidence/evidence.ts';
import { writing } from '../failure/failure.ts';
import { readReports } from '../input/parity-reports.ts';
import { print, progress, say } from '../output/progress.ts';
import { stagedRelease, targetOf } from '../evidence/target.ts';

interface FleetOptions {
  readonly allowedReceipts: string;
  /** Results of `sluice parity`. */
  readonly parity?: readonly string[];
  /** A release directory. */
  readonly release?: string;
  readonly output: 'text' | 'json' | 'html';
  /** The file to write instead of standard output. */
  readonly out?: string;
}

const printers = { text: fleetText, json: fleetJson, html: fleetHtml } as const;

/** `sluice fleet`: prints the rollout state of every node. Exits with 1 unless all nodes are in the desired state. */
export function fleetCommand(
  dir: string,
  { allowedReceipts, parity = [], release, output, out }: FleetOptions,
): number {
  const target = release === undefined ? undefined : targetOf(stagedRelease(release));
  progress(`checking the receipts in ${dir}`);
  const { evidence, foreignNodes } = gatherEvidence(dir, allowedReceipts);
  const observed = new Map([...readReports(parity)].map(([node, { modes }]) => [node, modes.observed]));
  const fleet = judgeFleet(evidence, foreignNodes, target, observed);
  // Links are relative to the folder of the page; a page on standard output is assumed to be saved in the current directory.
  const text = printers[output](fleet, relative(out === undefined ? '.' : dirname(out), dir));
  if (out === undefined) print(text);
  else {
    writing(out, () => writeOutput(out, Buffer.from(text)));
    say(`${out}: ${headline(fleet)}\n`);
  }
  return isHealthyFleet(fleet) ? exitCodes.done : exitCodes.different;
}
