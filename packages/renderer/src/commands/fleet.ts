import { dirname, relative } from 'node:path';
import { writeOutput } from '../emit/file.ts';
import { fleetHtml } from '../emit/fleet/html.ts';
import { fleetJson } from '../emit/fleet/json.ts';
import { fleetText } from '../emit/fleet/text.ts';
import { headline } from '../emit/fleet/words.ts';
import { exitCodes } from '../exit.ts';
import { isWell, judgeFleet } from '../fleet/fleet.ts';
import { gatherEvidence } from './evidence.ts';
import { writing } from './failure.ts';
import { print, progress, say } from './progress.ts';
import { stagedRelease, targetOf } from './target.ts';

export interface FleetOptions {
  readonly allowedReceipts: string;
  /** A release directory. */
  readonly release?: string;
  readonly output: 'text' | 'json' | 'html';
  /** The file to write instead of standard output. */
  readonly out?: string;
}

const printers = { text: fleetText, json: fleetJson, html: fleetHtml } as const;

/** `sluice fleet`: who runs what, who rolled back and why, who is silent. Ends with 1 when not every node is where it should be. */
export function fleetCommand(dir: string, { allowedReceipts, release, output, out }: FleetOptions): number {
  const target = release === undefined ? undefined : targetOf(stagedRelease(release));
  progress(`checking the receipts in ${dir}`);
  const { evidence, strangers } = gatherEvidence(dir, allowedReceipts);
  const fleet = judgeFleet(evidence, strangers, target);
  // Links of the page lead from its own folder; what is printed is taken to be kept in this one.
  const text = printers[output](fleet, relative(out === undefined ? '.' : dirname(out), dir));
  if (out === undefined) print(text);
  else {
    writing(out, () => writeOutput(out, Buffer.from(text)));
    say(`${out}: ${headline(fleet)}\n`);
  }
  return isWell(fleet) ? exitCodes.done : exitCodes.different;
}
