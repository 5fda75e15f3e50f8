import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type WavesOpening,
  openingFile,
  openingSignatureFile,
  printOpening,
  type Problem,
  readSignature,
  type Release,
  waveNamespace,
} from '@sluice/bundle';
import type { Format } from '@sluice/cli';
import { nodesText } from '../emit/fleet/words.ts';
import { besideRelease, writeOpening } from '../emit/release.ts';
import { exitCodes } from '../exit.ts';
import { type Evidence, judgeFleet } from '../fleet/fleet.ts';
import { promote, type Promotion } from '../fleet/promote.ts';
import { gatherEvidence } from './evidence.ts';
import { Stopped, writing } from './failure.ts';
import { print, progress, say } from './progress.ts';
import { sshKeygen } from './ssh-keygen.ts';
import { type Staged, stagedRelease, targetOf } from './target.ts';
import { printDocument, tellProblems } from './told.ts';

export interface PromoteOptions {
  readonly output: Format;
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
  const staged = stagedRelease(dir);
  const { waves, opening } = staged;
  if (waves.length === 0) throw new Stopped(noWaves(dir));
  if (staged.onlyEndpoints) throw new Stopped(onlyUpdate(dir, staged.release));
  const decision = decide(dir, staged, options);
  const { output } = options;
  const printResult = (result: 'not-ready' | 'all-open' | 'may-open' | 'opened', open: number): void =>
    printDocument(output, 'Promotion', { dir, result, open, waves: waves.length });
  if (decision.kind === 'not-ready') {
    tellProblems(decision.problems);
    printResult('not-ready', opening.open);
    return exitCodes.different;
  }
  if (decision.kind === 'all-open') {
    if (output === 'text') print(`${dir}: all ${waves.length} waves are open\n`);
    tellProblems(decision.problems);
    printResult('all-open', waves.length);
    return decision.problems.length === 0 ? exitCodes.done : exitCodes.different;
  }
  const text = printOpening({ ...opening, open: decision.open });
  if (options.dryRun !== true) openWave(dir, opening.release, text, options.key);
  const done = options.dryRun === true ? 'may be opened' : 'is open';
  if (output === 'json') printResult(options.dryRun === true ? 'may-open' : 'opened', decision.open);
  else
    print(
      `${dir}: wave ${decision.open} of ${waves.length} (${decision.wave.name}, ${nodesText(decision.wave.nodes.length)}) ${done}\n`,
    );
  return exitCodes.done;
}

/**
 * Who has a key opens no wave that its nodes do not see: judging goes on from the wave up to which the opening is signed. A line that
 * says more was left by a promotion that was killed or had no key, or written by anybody. It is followed as far as all nodes of each wave
 * say that they run the release, and no quorum stands in for them: of a wave that was never opened none can, though those before it
 * may be many enough.
 */
function decide(dir: string, staged: Staged, options: PromoteOptions): Promotion {
  const { opening } = staged;
  const signed = options.key === undefined ? opening.open : signedSoFar(dir, opening);
  const evidence = evidenceOf(options, signed);
  const judge = (count: number, quorum: number): Promotion => {
    const target = targetOf({ ...staged, opening: { ...opening, open: count } });
    return promote(target.waves, count, judgeFleet(evidence, [], target), quorum);
  };
  let decision = judge(signed, options.quorum);
  while (decision.kind === 'open' && decision.open < opening.open) {
    const next = judge(decision.open, 100);
    if (next.kind !== 'open') break;
    decision = next;
  }
  return decision;
}

/** The greatest number of open waves, up to what the opening says, of which the signature beside it is one, whoever made it. */
function signedSoFar(dir: string, opening: WavesOpening): number {
  for (let { open } = opening; open > 0; open--) {
    const isThere = open === opening.open;
    if (isSigned(dir, isThere ? readFileSync(join(dir, openingFile)) : printOpening({ ...opening, open }))) return open;
  }
  return 0;
}

function isSigned(dir: string, text: Buffer | string): boolean {
  const args = ['-Y', 'check-novalidate', '-n', waveNamespace, '-s', join(dir, openingSignatureFile)];
  return spawnSync(sshKeygen, args, { input: text, stdio: ['pipe', 'ignore', 'ignore'] }).status === 0;
}

/** @param open how many waves are */
function evidenceOf({ receipts, allowedReceipts }: PromoteOptions, open: number): ReadonlyMap<string, Evidence> {
  if (receipts !== undefined && allowedReceipts !== undefined) {
    progress(`checking the receipts in ${receipts}`);
    return gatherEvidence(receipts, allowedReceipts).evidence;
  }
  if (open > 0) throw new Stopped(noReceipts);
  return new Map();
}

/** A signature of the old line fits the new one no more, so it goes with it. */
function openWave(dir: string, release: string, text: string, key: string | undefined): void {
  const signature = key === undefined ? undefined : sign(dir, text, key);
  const write = (): void => writeOpening(dir, text, signature);
  const refused = writing(join(dir, openingFile), () => besideRelease(dir, release, write));
  if (refused) throw new Stopped(refused);
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
