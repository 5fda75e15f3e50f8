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
import { writing } from '@sluice/renderer/commands/failure/failure.ts';
import { sshKeygen } from '@sluice/renderer/commands/signing/sign-text.ts';

export { signText, sshKeygen } from '@sluice/renderer/commands/signing/sign-text.ts';

const timeoutMs = 10_000;

/**
 * Verifies signatures. Each check runs ssh-keygen with a single line of `allowed_signers`, so that no other line can match.
 * @returns the principals with valid signatures
 * @throws Stopped when no temporary file can be written
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
