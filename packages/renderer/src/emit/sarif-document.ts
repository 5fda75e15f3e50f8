import { hash } from 'node:crypto';

/** SARIF 2.1.0, as code scanning takes it (OASIS sarif-v2.1.0, sections 3.14 to 3.27). */

/** Code scanning of GitHub refuses a run with more results than this, and shows the worst 5,000 of them. */
export const sarifResultsMax = 25_000;

export interface SarifResult {
  readonly ruleId: string;
  readonly ruleIndex: number;
  readonly level: 'error' | 'warning' | 'note' | 'none';
  readonly text: string;
  /** Relative to the current directory. */
  readonly file: string;
  readonly line: number;
  /** What makes it the same alert although its line moves. */
  readonly identity: string;
}

/** One result of a run. */
export const sarifResult = ({ ruleId, ruleIndex, level, text, file, line, identity }: SarifResult): object => ({
  ruleId,
  ruleIndex,
  level,
  message: { text },
  locations: [{ physicalLocation: { artifactLocation: { uri: uriOf(file) }, region: { startLine: line } } }],
  partialFingerprints: { 'sluice/v1': hash('sha256', identity, 'hex').slice(0, 32) },
});

interface SarifRun {
  /** Of `sluice`. */
  readonly version: string;
  readonly rules: readonly object[];
  readonly results: readonly object[];
  /** How many results are left out, and how to see all. */
  readonly left: { readonly count: number; readonly text: string };
  /** Of runs about different things, `parity/node-a/`: code scanning takes two with one id for the same (3.17). */
  readonly id?: string;
  /** About the run as a whole. */
  readonly note?: string;
  /** What other formats have besides the results (3.8). */
  readonly properties?: object;
}

/** Prints a document with one run; omitted results are reported (3.20.21), so that a truncated file does not look complete. */
export function sarifDocument({ version, rules, results, left, id, note, properties }: SarifRun): string {
  const notifications = [
    ...(left.count === 0 ? [] : [{ level: 'warning', message: { text: left.text } }]),
    ...(note === undefined ? [] : [{ level: 'note', message: { text: note } }]),
  ];
  const invocation = {
    executionSuccessful: true,
    ...(notifications.length === 0 ? {} : { toolExecutionNotifications: notifications }),
  };
  const document = {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'sluice', semanticVersion: version, rules } },
        ...(id === undefined ? {} : { automationDetails: { id } }),
        columnKind: 'utf16CodeUnits',
        invocations: [invocation],
        ...(properties === undefined ? {} : { properties }),
        results,
      },
    ],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

/** A relative reference: RFC 3986 leaves these characters alone in a path. */
function uriOf(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}
