import { modes, type Problem } from '@sluice/netfilter';
import { isMap } from '../is-map.ts';
import {
  connectionFates,
  parityCauses,
  type ParityDifference,
  type ParityReport,
  parityReportFormat,
} from './report.ts';

type Check = (value: unknown) => boolean;
const isText: Check = (value) => typeof value === 'string' && value.length <= 64 * 1024;
const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value);
const shape =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value) =>
    isMap(value) &&
    Object.keys(value).every((key) => Object.hasOwn(checks, key)) &&
    Object.entries(checks).every(([key, check]) => check(value[key]));
const list =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.length <= 1_000_000 && value.every(check);
const one =
  (...choices: readonly unknown[]): Check =>
  (value) =>
    choices.includes(value);
const hex =
  (digits: number): Check =>
  (value) =>
    typeof value === 'string' && value.length === digits && /^[0-9a-f]+$/.test(value);

const difference = shape({
  id: hex(16),
  frontend: isText,
  family: one('ipv4', 'ipv6'),
  services: list(isText),
  source: shape({
    class: one('pod-here', 'pod-elsewhere', 'node', 'outside', 'endpoint'),
    network: optional(isText),
    address: isText,
  }),
  observed: isText,
  desired: isText,
  cause: one(...parityCauses),
  code: optional(isText),
  rule: optional(isText),
  packet: shape({
    from: isText,
    in: optional(isText),
    to: isText,
    port: isCount,
    protocol: one('tcp', 'udp', 'sctp'),
    state: optional(one('established', 'invalid')),
  }),
  alsoFrom: list(isText),
  advice: isText,
});

/** A DNS subdomain: a report may come from anywhere, and its node is printed and becomes the name of a file. */
const isNode: Check = (value) =>
  typeof value === 'string' &&
  value.length <= 253 &&
  /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/.test(value);

const keys: Readonly<Record<string, Check>> = {
  apiVersion: one('sluice.dev/v1alpha1'),
  kind: one('ParityReport'),
  format: one(parityReportFormat),
  node: isNode,
  bootId: optional(isText),
  observedDigest: hex(64),
  version: hex(16),
  modes: shape({ observed: list(one(...modes)), desired: one(...modes) }),
  base: optional(shape({ version: hex(16), known: isCount })),
  result: one('equivalent', 'different', 'incomplete'),
  coverage: shape({
    frontends: isCount,
    sources: isCount,
    cases: isCount,
    notCovered: list(
      shape({ what: isText, at: optional(isText), why: isText, cases: isCount, matters: one(true, false) }),
    ),
  }),
  differences: list(difference),
  connections: optional(
    shape({
      pairs: list(
        shape({
          frontend: isText,
          family: one('ipv4', 'ipv6'),
          services: list(isText),
          endpoint: isText,
          count: isCount,
          after: one(...connectionFates),
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
  const value = parsed(text);
  if (!isMap(value)) return invalid(file, 'it is not a JSON object');
  const unknown = Object.keys(value).find((key) => !Object.hasOwn(keys, key));
  if (unknown !== undefined)
    return invalid(file, `a parity report has no key ${JSON.stringify(unknown.slice(0, 60))} in this format`);
  const [bad] = Object.entries(keys).find(([key, check]) => !check(value[key])) ?? [];
  if (bad !== undefined) return invalid(file, `${bad} is ${Object.hasOwn(value, bad) ? 'not valid' : 'missing'}`);
  const { apiVersion: _apiVersion, kind: _kind, format: _format, ...rest } = value;
  const read = rest as unknown as ParityReport;
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

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const invalid = (file: string, why: string): Problem => ({
  code: 'PARITY_REPORT_INVALID',
  level: 'error',
  message: `Cannot read ${file}: ${why}`,
  hint: 'Write it with `sluice parity OBSERVED BUNDLE --node NAME -o json`, and read it with a Sluice of the same version',
});
