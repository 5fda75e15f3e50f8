import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  judgeSignatures,
  planSignatures,
  readSignature,
  releaseNamespace,
  type SignatureCheck,
  type SignatureNamespace,
  type SignatureRun,
  type Signed,
  type Signer,
  verifyArguments,
} from '@sluice/bundle';
import { writing } from '@sluice/renderer/commands/failure/failure.ts';

/** The path in every distribution; PATH is not used. */
export const sshKeygen = '/usr/bin/ssh-keygen';
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

/**
 * Signs a text. Keeps the environment, unlike on a node: ssh-keygen needs the agent, the terminal and the ssh settings of the user.
 * @param key a private key, or a public one whose private key is in an agent or on a token
 * @returns the armoured signature; or why there is none, in words
 */
export function signText(
  text: string,
  key: string,
  namespace: SignatureNamespace,
): { readonly signature: string; readonly keyType: string } | { readonly why: string } {
  let signature: string;
  try {
    signature = execFileSync(sshKeygen, ['-Y', 'sign', '-q', '-n', namespace, '-f', key], {
      input: text,
      encoding: 'latin1',
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  } catch {
    return { why: 'ssh-keygen failed; see its message above' };
  }
  const claim = readSignature(signature, namespace);
  if (typeof claim === 'string') return { why: `nodes would refuse the signature: ${claim}` };
  return { signature, keyType: claim.keyType };
}
