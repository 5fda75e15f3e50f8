import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  openingFile,
  openingSignatureFile,
  printOpening,
  releaseLimits,
  waveNamespace,
  type WavesOpening,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { say } from '@sluice/renderer/commands/output/progress.ts';
import { nodesText } from '../../emit/fleet/words.ts';
import { besideRelease, writeOpening } from '../../emit/release.ts';
import { signText, sshKeygen } from '../evidence/ssh-keygen.ts';
import type { StagedRelease } from '../evidence/target.ts';

/**
 * The opening that the signature in a release covers, whatever its key: with as many closings as that of the file, or one fewer.
 * @param opening of the file
 * @param waves the number of waves
 * @param most the greatest number of open waves to look for, with as many closings
 * @returns undefined where it covers none, and none was closed: then no wave is open for nodes
 * @throws Stopped where it covers none of so many closings: signing a foreign number could use them up
 */
export function signedOpening(
  dir: string,
  opening: WavesOpening,
  waves: number,
  most = waves,
): WavesOpening | undefined {
  const { release, closings = 0 } = opening;
  for (const count of closings === 0 ? [0] : [closings, closings - 1])
    for (let open = count === closings ? most : waves; open >= (count === 0 ? 1 : 0); open--) {
      const one = { release, ...(count === 0 ? {} : { closings: count }), open };
      const isThere = open === opening.open && count === closings;
      if (isSigned(dir, isThere ? readFileSync(join(dir, openingFile)) : printOpening(one))) return one;
    }
  if (closings > 0) throw new Stopped(notCovered(dir));
  return undefined;
}

const notCovered = (dir: string): Problem =>
  refusal(
    'WAVES_INVALID',
    `Cannot continue from ${join(dir, openingFile)}: no signature covers it, so it may have been changed`,
    `Restore it with ${openingSignatureFile}; or read it, and sign it with \`ssh-keygen -Y sign -n ${waveNamespace}\``,
  );

function isSigned(dir: string, text: Buffer | string): boolean {
  const args = ['-Y', 'check-novalidate', '-n', waveNamespace, '-s', join(dir, openingSignatureFile)];
  return spawnSync(sshKeygen, args, { input: text, stdio: ['pipe', 'ignore', 'ignore'] }).status === 0;
}

/**
 * Writes the opening with its signature. The old signature does not match the new text, so it is replaced or removed.
 * @param key undefined: without a signature, and says how to make one
 * @throws Stopped when it cannot be signed or written, or is of another release by now
 */
export function placeOpening(dir: string, opening: WavesOpening, key: string | undefined): void {
  const text = printOpening(opening);
  const signature = key === undefined ? undefined : sign(dir, text, key);
  const write = (): void => writeOpening(dir, text, signature);
  const refused = writing(join(dir, openingFile), () => besideRelease(dir, opening.release, write));
  if (refused) throw new Stopped(refused);
  if (signature === undefined)
    say(
      `${openingFile} is not signed; for nodes that require signatures, run:\n    ssh-keygen -Y sign -n ${waveNamespace} -f KEY ${join(dir, openingFile)}\n`,
    );
}

/** As in `sluice sign`, ssh-keygen uses the agent, the token and the terminal of the user. */
function sign(dir: string, text: string, key: string): string {
  const signed = signText(text, key, waveNamespace);
  if ('why' in signed) throw new Stopped(notSigned(dir, signed.why));
  return signed.signature;
}

const notSigned = (dir: string, why: string): Problem =>
  refusal(
    'WAVES_INVALID',
    `Cannot write ${join(dir, openingSignatureFile)}: ${why}`,
    'Nothing was written. Pass --key with a private key, or with a public key whose private key is in the agent',
  );

interface CloseOptions {
  /** Of the wave; undefined: the last open one. */
  readonly name: string | undefined;
  readonly key?: string;
  readonly dryRun?: boolean;
}

/** The waves that are closed now, in words, with the number that is open; or why none was. */
type Closed = { readonly words: string; readonly open: number } | { readonly none: string };

/**
 * Closes a wave and those after it: writes an opening with one closing more, which nodes prefer to each one from before.
 * With a key it starts from what a signature covers, so that a closing that was interrupted is completed by the same command.
 * @throws Stopped for an unknown wave, and when the opening cannot be signed or written
 */
export function close(dir: string, { waves, opening }: StagedRelease, { name, key, dryRun }: CloseOptions): Closed {
  const at = name === undefined ? undefined : waves.findIndex((wave) => wave.name === name);
  if (at === -1) throw new Stopped(notClosed(dir, `the release has no wave ${name}`, 'waves.yaml names its waves'));
  const seen = key === undefined ? opening : signedOpening(dir, opening, waves.length);
  if (!seen && opening.open > 0) throw new Stopped(notCovered(dir));
  const { closings = 0 } = opening;
  const open = seen?.open ?? 0;
  const left = at ?? open - 1;
  if (open <= left || open === 0) return { none: name === undefined ? 'no wave is open' : `wave ${name} is not open` };
  if (closings === releaseLimits.closingsMax)
    throw new Stopped(notClosed(dir, `waves were closed ${closings} times`, 'Stop the rollout with a new release'));
  const closed = waves.slice(left, open).map((wave) => `${wave.name} (${nodesText(wave.nodes.length)})`);
  if (dryRun !== true) placeOpening(dir, { release: opening.release, closings: closings + 1, open: left }, key);
  return { words: closed.join(', '), open: left };
}

function notClosed(dir: string, why: string, hint: string): Problem {
  return { code: 'WAVES_INVALID', level: 'error', message: `Cannot close a wave of ${dir}: ${why}`, hint };
}
