import { certificateMisfit, parityNamespace, readCertificate } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { loadSigners, type SignatureChecker, whoSigned } from '../../inbox/release-signatures.ts';
import type { Trust } from '../../inbox/trust.ts';
import { messageOf } from '../../message.ts';
import type { ParityGate } from '../../ports/parity.ts';
import { readSmallFile } from './read-file.ts';

/** The node's config for certificates. */
interface CertificateRules {
  readonly node: string;
  /** The path of the certificate; its signature is beside it, with `.sig`. */
  readonly certificate: string;
  readonly allowedSigners: string;
}

interface CertificateGateDependencies extends SignatureChecker {
  /** Who may write to `allowedSigners`. */
  readonly trust: Trust;
  /** The time of day. */
  readonly nowMs: () => number;
  readonly bootId: () => string;
  readonly servesElsewhere: () => Promise<boolean>;
  /** Observes the node now. @returns the digest */
  readonly observe: () => Promise<string>;
}

/**
 * Requires a parity certificate for a take-over: signed by a key of role `parity`, for this node and boot, for what the node observes now,
 * and for this version of the bundle: packages/bundle/README.md, "Parity certificates". Asked before anything is claimed.
 */
export const certificateGate = (rules: CertificateRules, parts: CertificateGateDependencies): ParityGate => ({
  servesElsewhere: parts.servesElsewhere,
  async refuse(version) {
    const problem = await misfit(version, rules, parts);
    return problem && { problems: [problem] };
  },
});

/** Why no certificate covers a version; undefined: one does. */
async function misfit(
  version: string,
  { node, certificate: path, allowedSigners }: CertificateRules,
  parts: CertificateGateDependencies,
): Promise<Problem | undefined> {
  const [text, signature] = [readSmallFile(path), readSmallFile(`${path}.sig`)];
  if (text === undefined || signature === undefined)
    return no(`${text === undefined ? path : `${path}.sig`} is missing, or no regular file of at most 1 MiB`);
  const signers = loadSigners(allowedSigners, parts.trust);
  if ('problems' in signers) return signers.problems[0] ?? no(`${allowedSigners} cannot be used`);
  const signed = await whoSigned(text, new Map([[`${path}.sig`, signature]]), signers, parts, parityNamespace);
  if ('problems' in signed) return signed.problems[0] ?? no(`${path}.sig cannot be checked`);
  // Before its signature is verified, nothing of it is read.
  if (signed.principals.length === 0) return no(`${path} has no good signature: ${signed.passedOver.join('; ')}`);
  const certificate = readCertificate(text);
  if (typeof certificate === 'string') return no(`${path} is not a certificate: ${certificate}`);
  const facts = { node, bootId: parts.bootId(), version, nowMs: parts.nowMs() };
  const misfitOf = (observed: string): string | undefined => certificateMisfit(certificate, { ...facts, observed });
  try {
    // Observing takes seconds on a large node: only for a certificate that is otherwise good.
    const why = misfitOf(certificate.observed) ?? misfitOf(await parts.observe());
    return why === undefined ? undefined : no(`${path}: ${why}`);
  } catch (error) {
    return no(`this node cannot be observed: ${messageOf(error)}`);
  }
}

const no = (why: string): Problem =>
  refusal(
    'NODE_PARITY_MISSING',
    `Cannot take over the Service rules of this node: requireParity is set, and ${why}`,
    'Nothing was touched. Observe the node, compare and certify again: `sluiced observe -o F`, `sluice parity F BUNDLE --node N -o json`, `sluice certify`; /usr/share/doc/sluice/adopt.md has the steps',
  );
