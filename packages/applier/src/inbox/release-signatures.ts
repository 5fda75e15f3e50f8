import { closeSync, constants, fstatSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import {
  judgeSignatures,
  planSignatures,
  type Problem,
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
import type { Run } from '../kernel/run.ts';
import { findTool } from '../kernel/tools.ts';
import { limits } from '../limits.ts';
import { descend, entryPath } from './descend.ts';
import { checkTrust, InboxError, type Trust } from './trust.ts';

/**
 * Who may sign, from a file that nobody but its owner may write, above which nobody may put another one.
 * @returns the signers, or `SIGNERS_INVALID`: without the file nothing new is taken
 */
export function loadSigners(path: string, trust: Trust): readonly Signer[] | { readonly problems: readonly Problem[] } {
  try {
    return readSigners(path, readTrusted(path, trust));
  } catch (error) {
    const { message, hint } = error as InboxError;
    const why = error instanceof InboxError ? message : `Cannot read ${path}: ${message}`;
    return { problems: [unusable(why, hint ?? 'Write who may sign there; packages/bundle/README.md has the form')] };
  }
}

function readTrusted(path: string, trust: Trust): string {
  const folder = descend(dirname(path), trust);
  try {
    const fd = openSync(
      entryPath(folder.fd, basename(path)),
      constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
    );
    try {
      const stats = fstatSync(fd, { bigint: true });
      checkTrust(path, stats, 'inside', trust);
      if (!stats.isFile() || stats.size > releaseLimits.signersBytesMax)
        throw new InboxError(
          `Cannot read ${path}: it is no regular file of usual size`,
          'Write a line for each signer',
        );
      return readFileSync(fd, 'latin1');
    } finally {
      closeSync(fd);
    }
  } finally {
    folder.close();
  }
}

/**
 * Who has signed. Each question goes to a process of its own with one line of `allowed_signers`, so no other line can say yes.
 * @returns who signed, or problems: a signature file of another form, no `ssh-keygen`
 */
export async function whoSigned(
  sums: string,
  signatures: ReadonlyMap<string, string>,
  signers: readonly Signer[],
  run: Run,
  namespace: SignatureNamespace = releaseNamespace,
): Promise<Signed | { readonly problems: readonly Problem[] }> {
  const plan = planSignatures(signatures, signers, namespace);
  if ('problems' in plan) return plan;
  const tool = findTool('ssh-keygen');
  if (tool === undefined) return { problems: [noTool] };
  const runs: (readonly [SignatureCheck, SignatureRun])[] = [];
  for (const check of plan.checks) runs.push([check, await verifyOne(tool, check, sums, run)]);
  return judgeSignatures(runs, plan.passedOver);
}

/** The two files are ours alone: made new in a new directory, which only this user can enter. */
async function verifyOne(tool: string, check: SignatureCheck, sums: string, run: Run): Promise<SignatureRun> {
  const scratch = mkdtempSync(join(tmpdir(), 'sluiced-verify-'));
  try {
    const [signersPath, signaturePath] = [join(scratch, 'allowed_signers'), join(scratch, 'signature')];
    writeFileSync(signersPath, check.signer.line, { flag: 'wx' });
    writeFileSync(signaturePath, check.signature, { flag: 'wx' });
    const { exitCode, stdout, stderr, why } = await run({
      file: tool,
      args: verifyArguments(check, signersPath, signaturePath),
      input: sums,
      timeoutMs: limits.verifyTimeoutMs,
      outputBytesMax: limits.probeOutputBytesMax,
    });
    return { exitCode, stdout, stderr: exitCode === undefined ? why : stderr };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

function unusable(message: string, hint: string): Problem {
  return { code: 'SIGNERS_INVALID', level: 'error', message, hint };
}

const noTool: Problem = {
  code: 'NODE_TOOL_MISSING',
  level: 'error',
  message: 'Cannot check signatures: ssh-keygen is not on the node',
  hint: 'Install the OpenSSH client (Debian: openssh-client)',
};
