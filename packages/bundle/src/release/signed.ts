import { appendTo, compareText, type Problem, refusal } from '@sluice/netfilter';
import { readSignature } from './armour.ts';
import {
  endpointsNamespace,
  releaseLimits,
  releaseNamespace,
  signatureFile,
  type SignatureNamespace,
} from '../names.ts';
import { quoted } from './receipt.ts';
import type { Signer } from './signers.ts';

/** One run of `ssh-keygen -Y verify` for a signature and its signer. */
export interface SignatureCheck {
  /** The file of the signature. */
  readonly file: string;
  readonly signature: string;
  readonly signer: Signer;
  readonly namespace: SignatureNamespace;
}

/** The result of a run of `ssh-keygen`. */
export interface SignatureRun {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** The signers of a release, and why other signatures do not count. */
export interface Signed {
  /** Sorted, without duplicates. */
  readonly principals: readonly string[];
  /** `SHA256SUMS.sig: WHY`; first those that `ssh-keygen` refused. */
  readonly passedOver: readonly string[];
}

/** `SHA256SUMS` may be signed for both namespaces; one signature counts for one of them. */
const alternatives: Readonly<Partial<Record<SignatureNamespace, SignatureNamespace>>> = {
  [releaseNamespace]: endpointsNamespace,
  [endpointsNamespace]: releaseNamespace,
};

/** The signatures to verify, and those that need no verification. */
interface SignaturePlan {
  readonly checks: readonly SignatureCheck[];
  /** `SHA256SUMS.x.sig: WHY`. */
  readonly passedOver: readonly string[];
}

/**
 * Plans the verification of a release's signatures. The key that a signature claims is read from it and looked up here, so each is
 * verified against one line of `allowed_signers`. (`find-principals` named signers whom the namespace excludes, in OpenSSH 9.2.)
 *
 * Invalid signatures are ignored, since a public registry may have any: a malformed file, one by another key or one too many must not
 * block a release with valid signatures. The work is bounded: a limited number of files is read, those named after signers first, and
 * a limited number is verified, the first of each signer before the second of any.
 * @param signatures signature file → text
 */
export function planSignatures(
  signatures: ReadonlyMap<string, string>,
  signers: readonly Signer[],
  namespace: SignatureNamespace = releaseNamespace,
): SignaturePlan {
  const { signatureChecksMax, signatureFilesMax } = releaseLimits;
  const files = inOrder(signatures, signers);
  const passedOver: string[] = [];
  const bySigner = new Map<Signer, SignatureCheck[]>();
  for (const [file, signature] of files.slice(0, signatureFilesMax)) {
    const signer = claimedBy(signature, signers, namespace);
    if (typeof signer === 'string') passedOver.push(`${file}: ${signer}`);
    else appendTo(bySigner, signer, { file, signature, signer, namespace });
  }
  if (files.length > signatureFilesMax)
    passedOver.push(`${files.length - signatureFilesMax} more signature files: only ${signatureFilesMax} are read`);
  const checks = interleaved([...bySigner.values()]);
  const late = checks.slice(signatureChecksMax).map(({ file }) => `${file}: only ${signatureChecksMax} are checked`);
  return { checks: checks.slice(0, signatureChecksMax), passedOver: [...passedOver, ...late] };
}

/** Files named after signers come first, so that a flood of other files cannot displace them. */
function inOrder(
  signatures: ReadonlyMap<string, string>,
  signers: readonly Signer[],
): readonly (readonly [string, string])[] {
  const named = new Set([signatureFile(), ...signers.map(({ principal }) => signatureFile(principal))]);
  return [...signatures].toSorted(([a], [b]) => Number(named.has(b)) - Number(named.has(a)) || compareText(a, b));
}

/** @returns the signer whose key a signature claims, or why it is ignored */
function claimedBy(signature: string, signers: readonly Signer[], namespace: SignatureNamespace): Signer | string {
  const claim = readSignature(signature, namespace);
  if (typeof claim === 'string') {
    const other = alternatives[namespace];
    const isOther = other !== undefined && typeof readSignature(signature, other) !== 'string';
    return isOther ? `it is for namespace ${other}` : claim;
  }
  const signer = signers.find(({ key }) => key === claim.key);
  if (signer === undefined) return 'its key is not in allowed_signers';
  return signer.namespaces.includes(namespace)
    ? signer
    : `the key of ${signer.principal} is not allowed for namespace ${namespace}`;
}

/** The first of each list, then the second of each, and so on. */
function interleaved<T>(lists: readonly (readonly T[])[]): readonly T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, index) => lists.flatMap((list) => list.slice(index, index + 1))).flat();
}

/** The arguments of `ssh-keygen` for one check; the signed bytes are its standard input. */
export function verifyArguments(check: SignatureCheck, signersPath: string, signaturePath: string): readonly string[] {
  return ['-Y', 'verify', '-f', signersPath, '-I', check.signer.principal, '-n', check.namespace, '-s', signaturePath];
}

/**
 * Evaluates the runs of `ssh-keygen`. Any output other than the one line for a good signature is a refusal: it also exits with 0 after
 * a warning.
 */
export function judgeSignatures(
  runs: readonly (readonly [SignatureCheck, SignatureRun])[],
  passedOver: readonly string[],
): Signed {
  const principals = new Set<string>();
  const refused: string[] = [];
  for (const [{ file, signer, namespace }, run] of runs) {
    const success = `Good "${namespace}" signature for ${signer.principal} with `;
    const isGood =
      run.exitCode === 0 && run.stderr === '' && run.stdout.startsWith(success) && /^[^\n]*\n$/.test(run.stdout);
    if (isGood) principals.add(signer.principal);
    else refused.push(`${file}: ${refusalOf(signer, run)}`);
  }
  return { principals: [...principals].toSorted(compareText), passedOver: [...refused, ...passedOver] };
}

/** Why a signature of a signer does not count; the time of its line in `allowed_signers` in plain words. */
function refusalOf({ principal }: Signer, run: SignatureRun): string {
  const [, late, early] =
    /key (?:has expired: .* > valid-before (\S+)|is not yet valid: .* < valid-after (\S+))/.exec(run.stderr) ?? [];
  if (late !== undefined) return `the key of ${principal} expired at ${late} (valid-before in allowed_signers)`;
  if (early !== undefined)
    return `the key of ${principal} is not yet valid: from ${early} (valid-after in allowed_signers)`;
  return `ssh-keygen refuses it for ${principal}: ${reasonOf(run)}`;
}

function reasonOf({ exitCode, stdout, stderr }: SignatureRun): string {
  const lines = `${stderr}\n${stdout}`
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return lines.length > 0 ? quoted(lines.slice(0, 2).join('; ')) : `exit code ${exitCode ?? 'none'}`;
}

/**
 * Checks the number of signers.
 * @returns `RELEASE_UNSIGNED` below the threshold
 */
export function unsigned({ principals, passedOver }: Signed, threshold: number): Problem | undefined {
  if (principals.length >= threshold) return undefined;
  const good = principals.length === 0 ? 'no good signature' : `good signatures of ${principals.join(', ')} only`;
  const named = passedOver.slice(0, releaseLimits.signaturesMax);
  const rest = passedOver.length > named.length ? [`and ${passedOver.length - named.length} more`] : [];
  const why = named.length === 0 ? '' : ` (${[...named, ...rest].join('; ')})`;
  return refusal(
    'RELEASE_UNSIGNED',
    `Cannot trust the release: it has ${good}, ${threshold} needed${why}`,
    'Have signers run `sluice sign DIR --key FILE --as NAME`; check the result with `sluice verify DIR`',
  );
}

/** Checks that the signers of a file can reach the threshold. @returns `SIGNERS_INVALID` if not */
export function unreachable(file: string, signers: readonly Signer[], threshold: number): Problem | undefined {
  const able = new Set(
    signers.filter(({ namespaces }) => namespaces.includes(releaseNamespace)).map((one) => one.principal),
  );
  if (able.size >= threshold) return undefined;
  return refusal(
    'SIGNERS_INVALID',
    `Cannot use ${file}: principals for namespace ${releaseNamespace}: ${able.size}, needed: ${threshold}`,
    'Add lines with namespaces="sluice-release", each with another principal, or lower the threshold',
  );
}
