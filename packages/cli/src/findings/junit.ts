import type { Examined, Finding, Findings } from './findings.ts';

/** A test of a JUnit document. */
export interface JunitCase {
  /** What was checked: a rule, a node. */
  readonly classname: string;
  readonly name: string;
  readonly file?: string;
  /** Left out: it passed. */
  readonly ended?:
    | { readonly kind: 'failure'; readonly type: string; readonly message: string; readonly text: string }
    | { readonly kind: 'skipped'; readonly message: string }
    | { readonly kind: 'output'; readonly text: string };
}

/** A test for each finding, failed unless it is a note or excused, and one for each thing that was examined. */
export const junitOf = ({ command, findings, examined }: Findings): string =>
  junitDocument(command, [...findings.map(foundCase), ...examined.map(examinedCase)]);

const foundCase = (finding: Finding): JunitCase => ({
  classname: finding.group,
  name: `${finding.about}: ${finding.message}`,
  ...(finding.place && { file: finding.place.file }),
  ended: endOf(finding),
});

function endOf({ rule, level, message, head, details, excused }: Finding): JunitCase['ended'] & {} {
  if (excused) return { kind: 'skipped', message: `${excused.as}: ${excused.why}` };
  const text = [head, ...details].join('\n');
  return level === 'note' ? { kind: 'output', text } : { kind: 'failure', type: rule, message, text };
}

function examinedCase({ group, name, text, isJudged }: Examined): JunitCase {
  const head = { classname: group, name };
  if (!isJudged) return { ...head, ended: { kind: 'skipped', message: text } };
  return text === '' ? head : { ...head, ended: { kind: 'output', text } };
}

/** JUnit XML with one suite, as Jenkins and GitLab read it. @param suite the command: `sluice policy` */
export function junitDocument(suite: string, cases: readonly JunitCase[]): string {
  const count = (kind: string): number => cases.filter(({ ended }) => ended?.kind === kind).length;
  const counts = `tests="${cases.length}" failures="${count('failure')}"`;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>\n',
    `<testsuites ${counts}>\n`,
    `  <testsuite name="${suite}" ${counts} errors="0" skipped="${count('skipped')}">\n`,
    ...cases.map(caseOf),
    '  </testsuite>\n',
    '</testsuites>\n',
  ].join('');
}

function caseOf({ classname, name, file, ended }: JunitCase): string {
  const place = file === undefined ? '' : ` file="${xml(file)}"`;
  const head = `    <testcase classname="${xml(classname)}" name="${xml(name)}"${place}`;
  return ended === undefined ? `${head}/>\n` : `${head}>${insideOf(ended)}</testcase>\n`;
}

function insideOf(ended: NonNullable<JunitCase['ended']>): string {
  if (ended.kind === 'skipped') return `<skipped message="${xml(ended.message)}"/>`;
  if (ended.kind === 'output') return `<system-out>${xml(ended.text)}</system-out>`;
  return `<failure type="${ended.type}" message="${xml(ended.message)}">${xml(ended.text)}</failure>`;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};

/** Escapes text for XML 1.0, which cannot represent most control characters and lone surrogates. */
function xml(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[^\t\n\r\u0020-\uFFFD\u{10000}-\u{10FFFF}]/gu, '\uFFFD')
    .replaceAll(/[&<>"']/g, (character) => entities[character] ?? character);
}
