import { compareText, type Problem } from '../problem.ts';
import { readSignature } from './armour.ts';
import {
  endpointsNamespace,
  releaseLimits,
  releaseNamespace,
  signatureFile,
  type SignatureNamespace,
} from './names.ts';
import { quoted } from './receipt.ts';
import type { Signer } from './signers.ts';

/** One question for `ssh-keygen -Y verify`: is this a good signature of this signer? */
export interface SignatureCheck {
  /** The file of the signature. */
  readonly file: string;
  readonly signature: string;
  readonly signer: Signer;
  readonly namespace: SignatureNamespace;
}

/** What a run of `ssh-keygen` gave. */
export interface SignatureRun {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** Who signed, and why other signatures do not count. */
export interface Signed {
  /** Sorted, each once. */
  readonly principals: readonly string[];
  /** In words: `SHA256SUMS.sig: …`; first those that `ssh-keygen` refused. */
  readonly passedOver: readonly string[];
}

/** `SHA256SUMS` may be signed for both: one signature counts for one of them. */
const besides: Readonly<Partial<Record<SignatureNamespace, SignatureNamespace>>> = {
  [releaseNamespace]: endpointsNamespace,
  [endpointsNamespace]: releaseNamespace,
};

/** Which questions are to be asked, and which signatures need none. */
export interface SignaturePlan {
  readonly checks: readonly SignatureCheck[];
  /** In words: `SHA256SUMS.x.sig: it is empty`. */
  readonly passedOver: readonly string[];
}

/**
 * Which questions are to be asked about a release's signatures. Whose key a signature claims is read from it and looked up here, so
 * each is asked about one line of `allowed_signers`. (`find-principals` named signers whom the namespace excludes, in OpenSSH 9.2.)
 *
 * What counts for nothing is passed over, as in registries: a file that is malformed, is by another key or is one too many must not refuse
 * a release that is signed well. The work is bounded: so many files are read, those with the names of signers first, and so many questions
 * asked, each signer's first before anybody's second.
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
    else bySigner.set(signer, [...(bySigner.get(signer) ?? []), { file, signature, signer, namespace }]);
  }
  if (files.length > signatureFilesMax)
    passedOver.push(`${files.length - signatureFilesMax} more signature files: only ${signatureFilesMax} are read`);
  const checks = inTurn([...bySigner.values()]);
  const late = checks.slice(signatureChecksMax).map(({ file }) => `${file}: only ${signatureChecksMax} are checked`);
  return { checks: checks.slice(0, signatureChecksMax), passedOver: [...passedOver, ...late] };
}

/** Those with the name of a signer come first: as many files as anybody likes must not push them out. */
function inOrder(
  signatures: ReadonlyMap<string, string>,
  signers: readonly Signer[],
): readonly (readonly [string, string])[] {
  const named = new Set([signatureFile(), ...signers.map(({ principal }) => signatureFile(principal))]);
  return [...signatures].toSorted(([a], [b]) => Number(named.has(b)) - Number(named.has(a)) || compareText(a, b));
}

/** @returns the signer whose key a signature claims; or why it counts for nothing */
function claimedBy(signature: string, signers: readonly Signer[], namespace: SignatureNamespace): Signer | string {
  const claim = readSignature(signature, namespace);
  if (typeof claim === 'string') {
    const other = besides[namespace];
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
function inTurn<T>(lists: readonly (readonly T[])[]): readonly T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, turn) => lists.flatMap((list) => list.slice(turn, turn + 1))).flat();
}

/** The arguments of `ssh-keygen` for one question; the signed bytes are its standard input. */
export function verifyArguments(check: SignatureCheck, signersPath: string, signaturePath: string): readonly string[] {
  return ['-Y', 'verify', '-f', signersPath, '-I', check.signer.principal, '-n', check.namespace, '-s', signaturePath];
}

/**
 * Who signed, by what `ssh-keygen` said. Anything but the one line that it prints for a good signature is a refusal: it also
 * ends with 0 when it warned of something.
 */
export function judgeSignatures(
  runs: readonly (readonly [SignatureCheck, SignatureRun])[],
  passedOver: readonly string[],
): Signed {
  const principals = new Set<string>();
  const refused: string[] = [];
  for (const [{ file, signer, namespace }, run] of runs) {
    const said = `Good "${namespace}" signature for ${signer.principal} with `;
    const isGood =
      run.exitCode === 0 && run.stderr === '' && run.stdout.startsWith(said) && /^[^\n]*\n$/.test(run.stdout);
    if (isGood) principals.add(signer.principal);
    else refused.push(`${file}: ssh-keygen refuses it for ${signer.principal}: ${reasonOf(run)}`);
  }
  return { principals: [...principals].toSorted(compareText), passedOver: [...refused, ...passedOver] };
}

function reasonOf({ exitCode, stdout, stderr }: SignatureRun): string {
  const said = `${stderr}\n${stdout}`
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return said.length > 0 ? quoted(said.slice(0, 2).join('; ')) : `exit code ${exitCode ?? 'none'}`;
}

/**
 * Whether enough signers have signed.
 * @returns `RELEASE_UNSIGNED` when not
 */
export function unsigned({ principals, passedOver }: Signed, threshold: number): Problem | undefined {
  if (principals.length >= threshold) return undefined;
  const good = principals.length === 0 ? 'no good signature' : `good signatures of ${principals.join(', ')} only`;
  const named = passedOver.slice(0, releaseLimits.signaturesMax);
  const rest = passedOver.length > named.length ? [`and ${passedOver.length - named.length} more`] : [];
  const why = named.length === 0 ? '' : ` (${[...named, ...rest].join('; ')})`;
  return {
    code: 'RELEASE_UNSIGNED',
    level: 'error',
    message: `Cannot trust the release: it has ${good}, ${threshold} needed${why}`,
    hint: 'Let signers run `sluice sign DIR --key FILE --as NAME`; `sluice verify DIR` says what a node will say',
  };
}

/** A threshold that the signers of a file could never reach. */
export function unreachable(file: string, signers: readonly Signer[], threshold: number): Problem | undefined {
  const able = new Set(
    signers.filter(({ namespaces }) => namespaces.includes(releaseNamespace)).map((one) => one.principal),
  );
  if (able.size >= threshold) return undefined;
  return {
    code: 'SIGNERS_INVALID',
    level: 'error',
    message: `Cannot use ${file}: principals for namespace ${releaseNamespace}: ${able.size}, needed: ${threshold}`,
    hint: 'Add lines with namespaces="sluice-release", each with another principal, or lower the threshold',
  };
}
