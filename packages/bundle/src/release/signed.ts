import { compareText, type Problem } from '../problem.ts';
import { readSignature } from './armour.ts';
import { endpointsNamespace, releaseLimits, releaseNamespace, type SignatureNamespace } from './names.ts';
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
  /** In words: `SHA256SUMS.sig: …`; first those that claim to be of a signer. */
  readonly passedOver: readonly string[];
}

/** `SHA256SUMS` may be signed for both: one signature counts for one of them. */
const besides: Readonly<Partial<Record<SignatureNamespace, SignatureNamespace>>> = {
  [releaseNamespace]: endpointsNamespace,
  [endpointsNamespace]: releaseNamespace,
};

/**
 * Which questions are to be asked about a release's signatures. Whose key a signature claims is read from it and looked up here, so
 * each is asked about one line of `allowed_signers`. (`find-principals` named signers whom the namespace excludes, in OpenSSH 9.2.)
 * Signatures by other keys cost nothing, so there may be many: strangers must not use up what the signers may have.
 * @param signatures signature file → text
 * @returns the questions and who needs none, or problems (`RELEASE_INVALID`)
 */
export function planSignatures(
  signatures: ReadonlyMap<string, string>,
  signers: readonly Signer[],
  namespace: SignatureNamespace = releaseNamespace,
):
  | { readonly checks: readonly SignatureCheck[]; readonly passedOver: readonly string[] }
  | { problems: readonly Problem[] } {
  const checks: SignatureCheck[] = [];
  const passedOver: string[] = [];
  const problems: Problem[] = [];
  const { signaturesMax, signatureFilesMax } = releaseLimits;
  if (signatures.size > signatureFilesMax) return { problems: [tooMany(`there are more than ${signatureFilesMax}`)] };
  for (const [file, signature] of [...signatures].toSorted(([a], [b]) => compareText(a, b))) {
    const claim = readSignature(signature, namespace);
    if (typeof claim === 'string') {
      const other = besides[namespace];
      if (other !== undefined && typeof readSignature(signature, other) !== 'string')
        passedOver.push(`${file}: it is for namespace ${other}`);
      else problems.push(malformed(file, claim));
      continue;
    }
    const signer = signers.find(({ key }) => key === claim.key);
    if (signer === undefined) passedOver.push(`${file}: its key is not in allowed_signers`);
    else if (!signer.namespaces.includes(namespace))
      passedOver.push(`${file}: the key of ${signer.principal} is not allowed for namespace ${namespace}`);
    else checks.push({ file, signature, signer, namespace });
  }
  if (checks.length > signaturesMax)
    problems.push(tooMany(`more than ${signaturesMax} are by keys in allowed_signers`));
  return problems.length > 0 ? { problems } : { checks, passedOver };
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

function tooMany(why: string): Problem {
  return {
    code: 'RELEASE_INVALID',
    level: 'error',
    message: `Cannot read the signatures: ${why}`,
    hint: 'Remove those that nobody needs: one for each signer is enough',
  };
}

function malformed(what: string, why: string): Problem {
  return {
    code: 'RELEASE_INVALID',
    level: 'error',
    message: `Cannot read ${what}: ${why}`,
    hint: 'A signature file is what `sluice sign` or `ssh-keygen -Y sign` wrote, unchanged, one for each signer',
  };
}
