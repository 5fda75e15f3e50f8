import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  judgeSignatures,
  planSignatures,
  releaseNamespace,
  type SignatureCheck,
  type SignatureNamespace,
  type SignatureRun,
  type Signed,
  type Signer,
  verifyArguments,
} from '@sluice/bundle';
import { writing } from './failure.ts';

/** Where every distribution has it; PATH is not asked. */
export const sshKeygen = '/usr/bin/ssh-keygen';
const timeoutMs = 10_000;

/**
 * Who has signed. Each question goes to a process of its own with one line of `allowed_signers`, so no other line can say yes.
 * @throws Stopped when the folder for temporary files takes none
 */
export function whoSigned(
  sums: string,
  signatures: ReadonlyMap<string, string>,
  signers: readonly Signer[],
  namespace: SignatureNamespace = releaseNamespace,
): Signed {
  const plan = planSignatures(signatures, signers, namespace);
  const runs = plan.checks.map((check) => [check, verifyOne(check, sums)] as const);
  return judgeSignatures(runs, plan.passedOver);
}

function verifyOne(check: SignatureCheck, sums: string): SignatureRun {
  const scratch = writing(tmpdir(), () => mkdtempSync(join(tmpdir(), 'sluice-verify-')));
  try {
    const [signersPath, signaturePath] = [join(scratch, 'allowed_signers'), join(scratch, 'signature')];
    writing(scratch, () => {
      writeFileSync(signersPath, check.signer.line);
      writeFileSync(signaturePath, check.signature);
    });
    const { status, stdout, stderr, error } = spawnSync(sshKeygen, verifyArguments(check, signersPath, signaturePath), {
      input: sums,
      encoding: 'utf8',
      env: { LC_ALL: 'C', TZ: 'UTC' },
      timeout: timeoutMs,
    });
    if (error !== undefined) return { exitCode: undefined, stdout: '', stderr: error.message };
    return { exitCode: status ?? undefined, stdout, stderr };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
