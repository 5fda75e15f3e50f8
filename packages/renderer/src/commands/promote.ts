import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  openingFile,
  openingSignatureFile,
  printOpening,
  type Problem,
  readSignature,
  type Release,
  waveNamespace,
} from '@sluice/bundle';
import { nodesText } from '../emit/fleet/words.ts';
import { printProblems } from '../emit/problems.ts';
import { writeOpening } from '../emit/release.ts';
import { exitCodes } from '../exit.ts';
import { judgeFleet } from '../fleet/fleet.ts';
import { promote } from '../fleet/promote.ts';
import { gatherEvidence } from './evidence.ts';
import { Stopped, writing } from './failure.ts';
import { print, progress, say } from './progress.ts';
import { sshKeygen } from './ssh-keygen.ts';
import { type Staged, stagedRelease, targetOf } from './target.ts';

export interface PromoteOptions {
  /** A folder of receipts; not needed for the first wave. */
  readonly receipts?: string;
  readonly allowedReceipts?: string;
  /** In whole per cent. */
  readonly quorum: number;
  readonly key?: string;
  readonly dryRun?: boolean;
}

/**
 * `sluice promote`: opens the next wave of a release by changing one line, when every node of the open waves has said that it is
 * well. Ends with 1 when one has not: a pipeline asks again.
 */
export function promoteCommand(dir: string, options: PromoteOptions): number {
  const staged = openedSoFar(dir, options.key);
  const { waves, opening } = staged;
  if (waves.length === 0) throw new Stopped(noWaves(dir));
  if (staged.onlyEndpoints) throw new Stopped(onlyUpdate(dir, staged.release));
  const decision = promote(waves, opening.open, fleetOf(staged, options), options.quorum);
  if (decision.kind === 'not-ready') {
    say(printProblems(decision.problems));
    return exitCodes.different;
  }
  if (decision.kind === 'all-open') {
    print(`${dir}: all ${waves.length} waves are open\n`);
    say(printProblems(decision.problems));
    return decision.problems.length === 0 ? exitCodes.done : exitCodes.different;
  }
  const text = printOpening({ ...opening, open: decision.open });
  if (options.dryRun !== true) open(dir, text, options.key);
  const done = options.dryRun === true ? 'may be opened' : 'is open';
  print(
    `${dir}: wave ${decision.open} of ${waves.length} (${decision.wave.name}, ${nodesText(decision.wave.nodes.length)}) ${done}\n`,
  );
  return exitCodes.done;
}

/**
 * Who has a key opens no wave that its nodes do not see: an opening whose signature is missing or of another line, as a promotion leaves
 * it that was killed or had no key, is not there yet. It is judged and written once more.
 */
function openedSoFar(dir: string, key: string | undefined): Staged {
  const staged = stagedRelease(dir);
  const { opening } = staged;
  if (key === undefined || opening.open === 0 || isSigned(dir)) return staged;
  return { ...staged, opening: { ...opening, open: opening.open - 1 } };
}

/** Whether the signature of the opening is one of its text, whoever made it. */
function isSigned(dir: string): boolean {
  const args = ['-Y', 'check-novalidate', '-n', waveNamespace, '-s', join(dir, openingSignatureFile)];
  return (
    spawnSync(sshKeygen, args, { input: readFileSync(join(dir, openingFile)), stdio: ['pipe', 'ignore', 'ignore'] })
      .status === 0
  );
}

function fleetOf(staged: Staged, { receipts, allowedReceipts }: PromoteOptions): ReturnType<typeof judgeFleet> {
  const target = targetOf(staged);
  if (receipts !== undefined && allowedReceipts !== undefined) {
    progress(`checking the receipts in ${receipts}`);
    const { evidence, strangers } = gatherEvidence(receipts, allowedReceipts);
    return judgeFleet(evidence, strangers, target);
  }
  if (target.open > 0) throw new Stopped(noReceipts);
  return judgeFleet(new Map(), [], target);
}

/** A signature of the old line fits the new one no more, so it goes with it. */
function open(dir: string, text: string, key: string | undefined): void {
  const signature = key === undefined ? undefined : sign(dir, text, key);
  writing(join(dir, openingFile), () => writeOpening(dir, text, signature));
  if (signature === undefined)
    say(
      `${openingFile} is not signed; nodes that require signatures want:\n    ssh-keygen -Y sign -n ${waveNamespace} -f KEY ${join(dir, openingFile)}\n`,
    );
}

/** As with `sluice sign`, agent, token and terminal are the signer's. */
function sign(dir: string, text: string, key: string): string {
  let signature: string;
  try {
    signature = execFileSync(sshKeygen, ['-Y', 'sign', '-q', '-n', waveNamespace, '-f', key], {
      input: text,
      encoding: 'latin1',
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  } catch {
    throw new Stopped(notSigned(dir, 'ssh-keygen did not sign; what it said stands above'));
  }
  const claim = readSignature(signature, waveNamespace);
  if (typeof claim === 'string') throw new Stopped(notSigned(dir, `nodes would refuse the signature: ${claim}`));
  return signature;
}

function notSigned(dir: string, why: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot write ${join(dir, openingSignatureFile)}: ${why}`,
    hint: 'Nothing was opened. --key is a private key, or a public one whose private half the agent has',
  };
}

function noWaves(dir: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot open a wave of ${dir}: this release has none, every node takes it at once`,
    hint: 'Make a release with `sluice release --wave FILE`',
  };
}

/** An opening of it would open nothing: neither of the update, which nodes take at once, nor of its release, which has another digest. */
function onlyUpdate(dir: string, { serial, revision }: Release): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot open a wave of ${dir}: it holds revision ${revision} of release ${serial}, an update that only keys for endpoints have signed, which waits for no wave`,
    hint: `Bring release ${serial} back into its place, with its ${openingFile}, and promote that; or let signers of releases sign the update, too (\`sluice sign DIR --key FILE --as NAME\`), so that it goes out in waves`,
  };
}

const noReceipts: Problem = {
  code: 'WAVE_NOT_READY',
  level: 'error',
  message: 'Cannot open the next wave: nothing says how the nodes of the open ones are',
  hint: 'Give a folder of receipts with --receipts, and who may sign them with --allowed-receipts',
};
