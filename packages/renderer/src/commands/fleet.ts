import { fleetHtml } from '../emit/fleet/html.ts';
import { fleetJson } from '../emit/fleet/json.ts';
import { fleetText } from '../emit/fleet/text.ts';
import { exitCodes } from '../exit.ts';
import { isWell, judgeFleet } from '../fleet/fleet.ts';
import { gatherEvidence } from './evidence.ts';
import { print, progress } from './progress.ts';
import { stagedRelease, targetOf } from './target.ts';

export interface FleetOptions {
  readonly allowedReceipts: string;
  /** A release directory. */
  readonly release?: string;
  readonly output: 'text' | 'json' | 'html';
}

const printers = { text: fleetText, json: fleetJson, html: fleetHtml } as const;

/** `sluice fleet`: who runs what, who rolled back and why, who is silent. Ends with 1 when not every node is where it should be. */
export function fleetCommand(dir: string, { allowedReceipts, release, output }: FleetOptions): number {
  const target = release === undefined ? undefined : targetOf(stagedRelease(release));
  progress(`checking the receipts in ${dir}`);
  const { evidence, strangers } = gatherEvidence(dir, allowedReceipts);
  const fleet = judgeFleet(evidence, strangers, target);
  print(printers[output](fleet));
  return isWell(fleet) ? exitCodes.done : exitCodes.different;
}
