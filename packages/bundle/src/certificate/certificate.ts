import { compareText } from '@sluice/netfilter';
import {
  type CheckedMap,
  checkOf,
  hexOf,
  isCount,
  isInstant,
  isNodeName,
  listOf,
  oneOf,
  plainOf,
  shape,
  textOf,
} from '../checks.ts';
import { printJson, readJson } from '../documents.ts';
import type { ParityReport } from '../parity/report.ts';

/** Bounds of a parity certificate, which a node reads from a file of others. */
export const certificateLimits = {
  bytesMax: 1024 * 1024,
  exceptionsMax: 1_000,
  notCoveredMax: 1_000,
  /** Of what was not compared; the rest of a longer text is cut off. */
  textCharactersMax: 500,
  byCharactersMax: 100,
  secondsMax: 24 * 3600,
  /** How far the clock of a node may be behind that of the signer. */
  skewSeconds: 300,
} as const;

/** Seconds since 1970 of an instant. */
const secondsOf = (instant: string): number => new Date(instant).getTime() / 1000;

/** `YYYY-MM-DDTHH:MM:SSZ` */
const instantOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/**
 * Makes the certificate of a report. Documented differences of modes need no acceptance.
 * @returns the certificate, or why there is none
 */
export function makeCertificate(report: ParityReport, terms: CertificateTerms): ParityCertificate | string {
  const { node, bootId, observedDigest: observed, version, coverage } = report;
  const { accepted, by, nowMs, seconds } = terms;
  if (bootId === undefined) return 'it is about saved outputs: only what a node observed of itself can be certified';
  if (report.base) return 'it leaves out differences that another bundle has, too: compare without --base';
  const gap = coverage.notCovered.find(({ matters }) => matters);
  if (gap) return `it is incomplete: ${gap.what} was not compared, because ${gap.why}`;
  const differences = report.differences.filter(({ cause }) => cause !== 'mode');
  const strange = accepted.find((id) => differences.every((one) => one.id !== id));
  if (strange !== undefined) return `it has no difference ${strange}`;
  const [open, ...others] = differences.filter(({ id }) => !accepted.includes(id));
  if (open) return `${others.length + 1} of its differences are not accepted, the first: ${describe(open)}`;
  if (differences.length > certificateLimits.exceptionsMax)
    return `it has more than ${certificateLimits.exceptionsMax} exceptions`;
  const exceptions = differences.map(({ id }) => ({ id, by })).toSorted((a, b) => compareText(a.id, b.id));
  const result = exceptions.length === 0 ? 'equivalent' : 'different';
  const { frontends, sources, cases } = coverage;
  const covered = { frontends, sources, cases, notCovered: notCoveredOf(report) };
  const [issued, expires] = [instantOf(nowMs), instantOf(nowMs + seconds * 1000)];
  const made = { node, bootId, observed, version, issued, expires, result, coverage: covered, exceptions } as const;
  // A report may come from anywhere: what no node would read is not signed, and its name of a node becomes that of a file.
  const read = readCertificate(printCertificate(made));
  return typeof read === 'string' ? `a certificate of it would be none: ${read}` : made;
}

const notCoveredOf = ({ coverage }: ParityReport): readonly string[] =>
  coverage.notCovered
    .slice(0, certificateLimits.notCoveredMax)
    .map(({ what }) => what.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, certificateLimits.textCharactersMax) || '?');

const describe = ({ id, frontend, services, cause }: ParityReport['differences'][number]): string =>
  `${id} (${[...services, frontend].join(' ')}: ${cause})`;

interface CertificateTerms {
  /** Ids of differences. */
  readonly accepted: readonly string[];
  /** Who accepts them. */
  readonly by: string;
  /** The time of day. */
  readonly nowMs: number;
  /** How long the certificate is valid, at most `certificateLimits.secondsMax`. */
  readonly seconds: number;
}

/** Of an operator: more than blanks. */
export const isOperatorName = checkOf<string>(
  (value) => plainOf(certificateLimits.byCharactersMax)(value) && value.trim() !== '',
);

const checks = {
  node: isNodeName,
  /** As the kernel prints it. */
  bootId: textOf(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/, 36),
  /** The digest of what was observed. */
  observed: hexOf(64),
  /** Of the node's rules in the bundle. */
  version: hexOf(16),
  issued: isInstant,
  /** At most `certificateLimits.secondsMax` after `issued`. */
  expires: isInstant,
  /** `different`: each difference is an exception, but for documented ones of modes. */
  result: oneOf('equivalent', 'different'),
  /** What was compared. */
  coverage: shape({
    frontends: isCount,
    sources: isCount,
    cases: isCount,
    /** What was not compared, and does not matter. */
    notCovered: listOf(plainOf(certificateLimits.textCharactersMax), certificateLimits.notCoveredMax),
  }),
  /** Accepted differences, by their ids, sorted, and who accepted each: the signer's word. */
  exceptions: listOf(shape({ id: hexOf(16), by: isOperatorName }), certificateLimits.exceptionsMax),
};

/**
 * A signed statement that a bundle serves a node as what the node runs now: README.md, "Parity certificates". It is about one boot, one
 * observed state and one version, and is valid for a day at most.
 */
export type ParityCertificate = CheckedMap<typeof checks>;

/** Prints a certificate: JSON, keys in the order of README.md, so that equal certificates give equal bytes. */
export const printCertificate = (certificate: ParityCertificate): string =>
  printJson('ParityCertificate', certificate, [
    ...Object.keys(checks),
    'frontends',
    'sources',
    'cases',
    'notCovered',
    'id',
    'by',
  ]);

/**
 * Reads a certificate, after its signature was verified. Only the canonical form is accepted.
 * @returns the certificate, or why it is none, in words that quote no value of it
 */
export function readCertificate(text: string): ParityCertificate | string {
  if (text.length > certificateLimits.bytesMax) return `it is larger than ${certificateLimits.bytesMax} bytes`;
  const certificate = readJson(text, 'ParityCertificate', checks);
  if (typeof certificate === 'string') return certificate;
  const { issued, expires, result, exceptions } = certificate;
  const seconds = secondsOf(expires) - secondsOf(issued);
  if (seconds <= 0 || seconds > certificateLimits.secondsMax) return 'it is valid for more than a day, or for no time';
  if ((result === 'equivalent') !== (exceptions.length === 0)) return 'its exceptions do not match its result';
  return printCertificate(certificate) === text ? certificate : 'it is not in canonical form';
}

/** What a node knows of itself when it judges a certificate: what it observes now, and its version in the bundle that is to be applied. */
export interface CertificateFacts extends Pick<ParityCertificate, 'node' | 'bootId' | 'observed' | 'version'> {
  /** The time of day. */
  readonly nowMs: number;
}

/**
 * Why a certificate does not cover a take-over; undefined: it does.
 *
 * A node's clock may be wrong. One that is behind the signer's by more than `skewSeconds` is refused: the certificate seems to come from the
 * future, and its end could not be judged. What the clock cannot prevent is bounded by the boot, the observed state and the version, which
 * are all of this very moment.
 */
export function certificateMisfit(certificate: ParityCertificate, facts: CertificateFacts): string | undefined {
  const { node, bootId, observed, version, issued, expires } = certificate;
  const nowSeconds = facts.nowMs / 1000;
  if (node !== facts.node) return `it is for node ${node}`;
  if (bootId !== facts.bootId) return 'the node has booted since it was observed';
  if (version !== facts.version) return `it is for version ${version} of the bundle, not ${facts.version}`;
  if (observed !== facts.observed) return 'the Service rules of the node have changed since they were observed';
  if (nowSeconds + certificateLimits.skewSeconds < secondsOf(issued))
    return `it was issued at ${issued}, and the clock of this node is ${Math.round(secondsOf(issued) - nowSeconds)} s behind that`;
  if (nowSeconds >= secondsOf(expires)) return `it expired at ${expires}`;
  return undefined;
}
