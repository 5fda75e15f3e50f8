import {
  type CertificateFacts,
  certificateMisfit,
  type ParityCertificate,
  parityNamespace,
  readCertificate,
} from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { loadSigners, type SignatureChecker, whoSigned } from '../../inbox/release-signatures.ts';
import type { Trust } from '../../inbox/trust.ts';
import { messageOf } from '../../message.ts';
import type { ParityGate } from '../../ports/parity.ts';
import type { Refusal } from '../../ports/refusal.ts';
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
export class CertificateGate implements ParityGate {
  readonly #rules: CertificateRules;
  readonly #parts: CertificateGateDependencies;

  constructor(rules: CertificateRules, parts: CertificateGateDependencies) {
    this.#rules = rules;
    this.#parts = parts;
  }

  servesElsewhere(): Promise<boolean> {
    return this.#parts.servesElsewhere();
  }

  async refuse(version: string): Promise<Refusal | undefined> {
    const judged = await this.check(version);
    return 'problem' in judged ? { problems: [judged.problem] } : undefined;
  }

  /** @returns the certificate that covers this version, or why there is none */
  async check(version: string): Promise<ParityCertificate | { readonly problem: Problem }> {
    const { node, certificate: path, allowedSigners } = this.#rules;
    const { nowMs, bootId, observe, trust } = this.#parts;
    const [text, signature] = [readSmallFile(path), readSmallFile(`${path}.sig`)];
    if (text === undefined || signature === undefined)
      return no(`${text === undefined ? path : `${path}.sig`} is missing, or no regular file of at most 1 MiB`);
    const signers = loadSigners(allowedSigners, trust);
    if ('problems' in signers) return { problem: signers.problems[0] as Problem };
    const signed = await whoSigned(text, new Map([[`${path}.sig`, signature]]), signers, this.#parts, parityNamespace);
    if ('problems' in signed) return { problem: signed.problems[0] as Problem };
    // Before its signature is verified, nothing of it is read.
    if (signed.principals.length === 0) return no(`${path} has no good signature: ${signed.passedOver.join('; ')}`);
    const certificate = readCertificate(text);
    if (typeof certificate === 'string') return no(`${path} is not a certificate: ${certificate}`);
    const facts = { node, bootId: bootId(), version, nowMs: nowMs() };
    const why = certificateMisfit(certificate, { ...facts, observed: certificate.observed });
    // Observing takes seconds on a large node: only for a certificate that is otherwise good.
    return why === undefined ? this.#observed(certificate, facts, observe) : no(`${path}: ${why}`);
  }

  async #observed(
    certificate: ParityCertificate,
    facts: Omit<CertificateFacts, 'observed'>,
    observe: () => Promise<string>,
  ): Promise<ParityCertificate | { readonly problem: Problem }> {
    try {
      const why = certificateMisfit(certificate, { ...facts, observed: await observe() });
      return why === undefined ? certificate : no(`${this.#rules.certificate}: ${why}`);
    } catch (error) {
      return no(`this node cannot be observed: ${messageOf(error)}`);
    }
  }
}

const no = (why: string): { readonly problem: Problem } => ({
  problem: {
    code: 'NODE_PARITY_MISSING',
    level: 'error',
    message: `Cannot take over the Service rules of this node: requireParity is set, and ${why}`,
    hint: 'Nothing was touched. Observe the node, compare and certify again: `sluiced observe -o F`, `sluice parity F BUNDLE --node N -o json`, `sluice certify`; /usr/share/doc/sluice/adopt.md has the steps',
  },
});
