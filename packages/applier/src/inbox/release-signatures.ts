import { lstatSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  judgeSignatures,
  planSignatures,
  readSigners,
  releaseLimits,
  releaseNamespace,
  type Signed,
  type SignatureCheck,
  type SignatureNamespace,
  type SignatureRun,
  type Signer,
  verifyArguments,
} from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { type Problem, refusal } from '@sluice/netfilter';
import type { Run } from '../kernel/command.ts';
import { findTool } from '../kernel/tools.ts';
import { limits } from '../limits.ts';
import { readTrusted } from './descend.ts';
import { InboxError, type Trust } from './trust.ts';

/**
 * Reads the allowed signers from a file that only its owner can write, in folders where other users cannot replace it.
 * @returns the signers, or `SIGNERS_INVALID`: without the file no new release is accepted
 */
export function loadSigners(path: string, trust: Trust): readonly Signer[] | { readonly problems: readonly Problem[] } {
  try {
    return readSigners(path, readTrusted(path, trust, releaseLimits.signersBytesMax, 0).toString('latin1'));
  } catch (error) {
    const { message, hint } = error as InboxError;
    const why = error instanceof InboxError ? message : `Cannot read ${path}: ${reasonOf(error)}`;
    return {
      problems: [
        unusable(
          why,
          hint ?? 'List the allowed signers there; see /usr/share/doc/sluice/bundle-format.md for the format',
        ),
      ],
    };
  }
}

/** What `ssh-keygen` is run with. */
export interface SignatureChecker {
  readonly run: Run;
  /** The state directory: the files to check are there for a moment, where other users cannot use up the space. */
  readonly state: string;
}

/**
 * Finds the signers. Each check is its own process with one line of `allowed_signers`, so no other line can match. A check that fails to
 * run, for example on a full disk, is why that signature does not count.
 * @returns the signers, or problems: no `ssh-keygen`
 */
export async function whoSigned(
  sums: string,
  signatures: ReadonlyMap<string, string>,
  signers: readonly Signer[],
  checker: SignatureChecker,
  namespace: SignatureNamespace = releaseNamespace,
): Promise<Signed | { readonly problems: readonly Problem[] }> {
  const plan = planSignatures(signatures, signers, namespace);
  const tool = findTool('ssh-keygen');
  if (tool === undefined) return { problems: [noTool] };
  const runs: (readonly [SignatureCheck, SignatureRun])[] = [];
  for (const check of plan.checks) runs.push([check, await verifyOne(tool, check, sums, checker)]);
  return judgeSignatures(runs, plan.passedOver);
}

async function verifyOne(
  tool: string,
  check: SignatureCheck,
  sums: string,
  { run, state }: SignatureChecker,
): Promise<SignatureRun> {
  let scratch: string | undefined;
  try {
    scratch = writeScratch(state, check);
    const { exitCode, stdout, stderr, why } = await run({
      file: tool,
      args: verifyArguments(check, join(scratch, signersName), join(scratch, signatureName)),
      input: sums,
      timeoutMs: limits.verifyTimeoutMs,
      outputBytesMax: limits.probeOutputBytesMax,
    });
    return { exitCode, stdout, stderr: exitCode === undefined ? why : stderr };
  } catch (error) {
    return { exitCode: undefined, stdout: '', stderr: `cannot run the check: ${(error as Error).message}` };
  } finally {
    if (scratch !== undefined) removeScratch(scratch);
  }
}

const [signersName, signatureName] = ['allowed_signers', 'signature'];

/**
 * Two files that only this user can read, in a new directory: in the state directory, or where temporary files go when that does not exist
 * or cannot be written to.
 */
function writeScratch(state: string, check: SignatureCheck): string {
  try {
    return writeBelow(state, check);
  } catch {
    return writeBelow(tmpdir(), check);
  }
}

const scratchName = 'sluiced-verify-';

/**
 * Removes what killed processes left in the state directory. One younger than an hour may be in use: a check takes seconds.
 * @param nowMs the time of day
 */
export function removeLeftScratch(state: string, nowMs: number): void {
  try {
    for (const name of readdirSync(state)) {
      const path = join(state, name);
      if (name.startsWith(scratchName) && nowMs - lstatSync(path).mtimeMs > scratchAgeMs) removeScratch(path);
    }
  } catch {
    return;
  }
}

const scratchAgeMs = 3_600_000;

function writeBelow(place: string, { signer, signature }: SignatureCheck): string {
  const scratch = mkdtempSync(`${place}/${scratchName}`);
  try {
    writeFileSync(join(scratch, signersName), signer.line, { flag: 'wx' });
    writeFileSync(join(scratch, signatureName), signature, { flag: 'wx' });
    return scratch;
  } catch (error) {
    removeScratch(scratch);
    throw error;
  }
}

/** A leftover does no harm: no check depends on it. */
function removeScratch(scratch: string): void {
  try {
    rmSync(scratch, { recursive: true, force: true });
  } catch {
    return;
  }
}

const unusable = (message: string, hint: string): Problem => refusal('SIGNERS_INVALID', message, hint);

const noTool = refusal(
  'NODE_TOOL_MISSING',
  'Cannot check signatures: ssh-keygen is not installed',
  'Install the OpenSSH client (Debian: openssh-client)',
);
