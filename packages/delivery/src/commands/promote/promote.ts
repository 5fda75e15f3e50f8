import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type WavesOpening,
  openingFile,
  openingSignatureFile,
  printOpening,
  type Release,
  waveNamespace,
} from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { nodesText } from '../../emit/fleet/words.ts';
import { besideRelease, writeOpening } from '../../emit/release.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { type Evidence, judgeFleet } from '../../fleet/fleet.ts';
import { promote, type Promotion } from '../../fleet/promote.ts';
import { gatherEvidence } from '../evidence/evidence.ts';
import { receiptInput } from '../evidence/found.ts';
import { Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { print, say } from '@sluice/renderer/commands/output/progress.ts';
import { signText, sshKeygen } from '../evidence/ssh-keygen.ts';
import { type StagedRelease, stagedRelease, targetOf } from '../evidence/target.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';

interface PromoteOptions {
  readonly output: Format;
  /** A folder of receipts; not needed for the first wave. */
  readonly receipts?: string;
  /** A store of receipts, instead of a folder. */
  readonly from?: string;
  readonly plainHttp?: boolean;
  readonly allowedReceipts?: string;
  /** In percent. */
  readonly quorum: number;
  /** Go on although nodes were confirmed with failing probes. */
  readonly acceptFailing?: boolean;
  readonly key?: string;
  readonly dryRun?: boolean;
}

/**
 * `sluice promote`: opens the next wave of a release once every node of the open waves has reported that it runs the release.
 * Otherwise exits with 1, so that a pipeline tries again.
 */
export async function promoteCommand(dir: string, options: PromoteOptions): Promise<number> {
  const staged = stagedRelease(dir);
  const { waves, opening } = staged;
  if (waves.length === 0) throw new Stopped(noWaves(dir));
  if (staged.onlyEndpoints) throw new Stopped(onlyUpdate(dir, staged.release));
  const decision = await decide(dir, staged, options);
  const { output } = options;
  const printResult = (result: 'not-ready' | 'all-open' | 'may-open' | 'opened', open: number): void =>
    printDocument(output, 'Promotion', { dir, result, open, waves: waves.length });
  if (decision.kind === 'not-ready') {
    reportProblems(decision.problems);
    printResult('not-ready', opening.open);
    return exitCodes.different;
  }
  if (decision.kind === 'all-open') {
    if (output === 'text') print(`${dir}: all ${waves.length} waves are open\n`);
    reportProblems(decision.problems);
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
 * Decides which wave to open. With a key, the decision starts from the waves that a signature covers, because nodes see only these. An
 * opening beyond the signature comes from an interrupted or unsigned promotion, or from a foreign write. It is confirmed wave by wave, as
 * long as all nodes of each wave report the release. The quorum does not apply there: of a wave that was never opened no node can report
 * it, yet the nodes of earlier waves could make up a quorum.
 */
async function decide(dir: string, staged: StagedRelease, options: PromoteOptions): Promise<Promotion> {
  const { opening } = staged;
  const signed = options.key === undefined ? opening.open : signedSoFar(dir, opening);
  const evidence = await evidenceOf(options, signed, Object.keys(staged.release.nodes));
  const { acceptFailing } = options;
  const judge = (count: number, quorum: number): Promotion => {
    const target = targetOf({ ...staged, opening: { ...opening, open: count } });
    return promote(target.waves, count, judgeFleet(evidence, [], target), { quorum, acceptFailing });
  };
  let decision = judge(signed, options.quorum);
  while (decision.kind === 'open' && decision.open < opening.open) {
    const next = judge(decision.open, 100);
    if (next.kind !== 'open') break;
    decision = next;
  }
  return decision;
}

/** The greatest number of open waves, up to that of the opening, for which the signature is valid, whatever its key. */
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

/**
 * @param open the number of open waves
 * @param nodes of the release
 */
async function evidenceOf(
  { allowedReceipts, receipts, ...store }: PromoteOptions,
  open: number,
  nodes: readonly string[],
): Promise<ReadonlyMap<string, Evidence>> {
  const input = receiptInput(receipts, store);
  if (input !== undefined && allowedReceipts !== undefined)
    return (await gatherEvidence(input, allowedReceipts, nodes)).evidence;
  if (open > 0) throw new Stopped(noReceipts);
  return new Map();
}

/** Writes the opening with its signature. The old signature does not match the new text, so it is replaced or removed. */
function openWave(dir: string, release: string, text: string, key: string | undefined): void {
  const signature = key === undefined ? undefined : sign(dir, text, key);
  const write = (): void => writeOpening(dir, text, signature);
  const refused = writing(join(dir, openingFile), () => besideRelease(dir, release, write));
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

function notSigned(dir: string, why: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot write ${join(dir, openingSignatureFile)}: ${why}`,
    hint: 'No wave was opened. Pass --key with a private key, or with a public key whose private key is in the agent',
  };
}

function noWaves(dir: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot open a wave of ${dir}: this release has no waves, all nodes apply it at once`,
    hint: 'Make a release with `sluice release --wave FILE`',
  };
}

/** An opening would have no effect: nodes apply the update at once, and its release has another digest. */
function onlyUpdate(dir: string, { serial, revision }: Release): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot open a wave of ${dir}: it contains revision ${revision} of release ${serial}, an endpoint update signed only by endpoint keys, which does not use waves`,
    hint: `Restore release ${serial} with its ${openingFile} and promote that; or sign the update with a release key, too (\`sluice sign DIR --key FILE --as NAME\`), so that it is rolled out in waves`,
  };
}

const noReceipts: Problem = {
  code: 'WAVE_NOT_READY',
  level: 'error',
  message: 'Cannot open the next wave: no receipts of the nodes in the open waves are given',
  hint: 'Pass a folder of receipts with --receipts, or a store of them with --from, and the keys of the nodes with --allowed-receipts',
};
