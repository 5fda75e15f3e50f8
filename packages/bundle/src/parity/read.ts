import { modes, type Problem, refusal } from '@sluice/netfilter';
import { hexOf, isCount, isNodeName, listOf, oneOf, optional, shape } from '../checks.ts';
import { type DocumentChecks, readJson } from '../documents.ts';
import {
  connectionOutcomes,
  parityCauses,
  type ParityDifference,
  type ParityReport,
  parityReportFormat,
} from './report.ts';

const isText = (value: unknown): boolean => typeof value === 'string' && value.length <= 64 * 1024;
const list = (check: (value: unknown) => boolean): ((value: unknown) => boolean) => listOf(check, 1_000_000);
const isId = hexOf(16);

const difference = shape({
  id: isId,
  frontend: isText,
  family: oneOf('ipv4', 'ipv6'),
  services: list(isText),
  source: shape({
    class: oneOf('pod-here', 'pod-elsewhere', 'node', 'outside', 'endpoint'),
    network: optional(isText),
    address: isText,
  }),
  observed: isText,
  desired: isText,
  cause: oneOf(...parityCauses),
  code: optional(isText),
  rule: optional(isText),
  packet: shape({
    from: isText,
    in: optional(isText),
    to: isText,
    port: isCount,
    protocol: oneOf('tcp', 'udp', 'sctp'),
    state: optional(oneOf('established', 'invalid')),
  }),
  alsoFrom: list(isText),
  advice: isText,
});

type ReportFile = ParityReport & { readonly format: number };

const keys: DocumentChecks<ReportFile> = {
  format: oneOf(parityReportFormat),
  node: isNodeName,
  bootId: optional(isText),
  observedDigest: hexOf(64),
  version: isId,
  modes: shape({ observed: list(oneOf(...modes)), desired: oneOf(...modes) }),
  base: optional(shape({ version: isId, known: isCount })),
  result: oneOf('equivalent', 'different', 'incomplete'),
  coverage: shape({
    frontends: isCount,
    sources: isCount,
    cases: isCount,
    notCovered: list(
      shape({ what: isText, at: optional(isText), why: isText, cases: isCount, matters: oneOf(true, false) }),
    ),
  }),
  differences: list(difference),
  connections: optional(
    shape({
      pairs: list(
        shape({
          frontend: isText,
          family: oneOf('ipv4', 'ipv6'),
          services: list(isText),
          endpoint: isText,
          count: isCount,
          after: oneOf(...connectionOutcomes),
        }),
      ),
      notCovered: shape({ elsewhere: isCount, left: isCount }),
    }),
  ),
};

/** Prints a report as JSON, with its keys in one order. */
export function printParityReport(of: ParityReport): string {
  const head = { apiVersion: 'sluice.dev/v1alpha1', kind: 'ParityReport', format: parityReportFormat } as const;
  return `${JSON.stringify({ ...head, ...of }, null, 2)}\n`;
}

/**
 * Reads what `sluice parity -o json` printed. @param file named in the problem
 * @returns the report, or `PARITY_REPORT_INVALID`: it is not of this form, or its result contradicts its content
 */
export function readParityReport(file: string, text: string): ParityReport | Problem {
  const found = readJson<ReportFile>(text, 'ParityReport', keys);
  if (typeof found === 'string') return invalid(file, found);
  const { format: _format, ...read } = found;
  const unfounded = read.differences.find((each) => !isFounded(each, read.modes));
  if (unfounded) return invalid(file, `difference ${unfounded.id} has not what its cause, ${unfounded.cause}, needs`);
  if (new Set(read.differences.map(({ id }) => id)).size < read.differences.length)
    return invalid(file, 'two of its differences have one id');
  if (read.result !== resultOf(read)) return invalid(file, `its content does not mean ${read.result}`);
  return read;
}

/** A documented difference has its code, and one of modes is between two of them: it needs no acceptance. */
function isFounded({ cause, code, rule }: ParityDifference, { observed, desired }: ParityReport['modes']): boolean {
  if (cause === 'foreign-rule') return rule !== undefined;
  if (cause === 'version') return code?.startsWith('VERSION_') === true;
  return cause !== 'mode' || (code?.startsWith('DIFFERS_') === true && observed.some((mode) => mode !== desired));
}

/** The result that differences and coverage mean. */
export function resultOf({
  differences,
  coverage,
}: Pick<ParityReport, 'differences' | 'coverage'>): ParityReport['result'] {
  if (differences.some(({ cause }) => cause !== 'mode')) return 'different';
  return coverage.notCovered.some(({ matters }) => matters) ? 'incomplete' : 'equivalent';
}

const invalid = (file: string, why: string): Problem =>
  refusal(
    'PARITY_REPORT_INVALID',
    `Cannot read ${file}: ${why}`,
    'Write it with `sluice parity OBSERVED BUNDLE --node NAME -o json`, and read it with a Sluice of the same version',
  );
