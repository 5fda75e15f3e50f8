import { compareText } from '../problem.ts';
import { type CauseCode, causes, precedenceOf } from './causes.ts';

/**
 * How well the evidence supports a cause. `certain`: packets of the Service meet it. `likely`: counters or connections show its effect.
 * `note`: it is unusual, and does no harm that is known; notes never fail a command.
 */
type Certainty = 'certain' | 'likely' | 'note';

/** One thing that is wrong. */
export interface Finding {
  readonly code: CauseCode;
  readonly certainty: Certainty;
  /** The Service, frontend or endpoint it is about; left out: the whole node. */
  readonly about?: string;
  /** What was seen, one fact a line. */
  readonly evidence: readonly string[];
  /** One command. */
  readonly fix: string;
}

/** A part of the node that could not be examined. */
export interface Unread {
  readonly what: string;
  readonly because: string;
}

/** The result of an examination. */
export interface Diagnosis {
  /** What was examined: `shop/web`, `10.96.0.10:80`, or `all Services`. */
  readonly subject: string;
  /** The most likely cause; undefined: none was found. */
  readonly cause: Finding | undefined;
  /** Further causes, the most likely one first. */
  readonly others: readonly Finding[];
  readonly notes: readonly Finding[];
  readonly unread: readonly Unread[];
}

/**
 * Orders findings: by certainty, then by precedence of their codes, then by text. Equal ones are named once.
 * Texts are made printable: some are chosen by users who are not root, such as the name of a process that listens on a port.
 */
export function diagnose(subject: string, findings: readonly Finding[], unread: readonly Unread[]): Diagnosis {
  const distinct = [...new Map(findings.map((one) => [`${one.code} ${one.about ?? ''}`, printable(one)])).values()];
  const sorted = distinct.toSorted(compareFindings);
  const [cause, ...others] = sorted.filter(({ certainty }) => certainty !== 'note');
  const notes = sorted.filter(({ certainty }) => certainty === 'note');
  return {
    subject,
    cause,
    others,
    notes,
    unread: unread.map(({ what, because }) => ({ what, because: terminalText(because) })),
  };
}

/** Control characters and changes of direction (categories Cc and Cf) can forge a terminal's output. */
export const terminalText = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');

const printable = ({ about, evidence, fix, ...finding }: Finding): Finding => ({
  ...finding,
  ...(about === undefined ? {} : { about: terminalText(about) }),
  evidence: evidence.map(terminalText),
  fix: terminalText(fix),
});

const certainties = ['certain', 'likely', 'note'] as const satisfies readonly Certainty[];

const compareFindings = (a: Finding, b: Finding): number =>
  certainties.indexOf(a.certainty) - certainties.indexOf(b.certainty) ||
  precedenceOf(a.code) - precedenceOf(b.code) ||
  compareText(a.about ?? '', b.about ?? '');

/** How many further causes, notes and lines of evidence are printed. */
const printedMax = { others: 5, notes: 5, evidence: 6 } as const;

/** For a terminal: the cause, its evidence and the command first. */
export function printDiagnosis({ subject, cause, others, notes, unread }: Diagnosis): string {
  const lines = cause
    ? [
        `${subject}: ${describe(cause)}`,
        ...some(cause.evidence, printedMax.evidence).map((line) => `  seen   ${line}`),
        `  fix    ${cause.fix}`,
      ]
    : [`${subject}: no cause found`];
  for (const line of some(others.map(brief), printedMax.others)) lines.push(`also     ${line}`);
  for (const line of some(notes.map(brief), printedMax.notes)) lines.push(`note     ${line}`);
  for (const { what, because } of unread) lines.push(`not read ${what}: ${because}`);
  return `${lines.join('\n')}\n`;
}

const describe = ({ code, certainty, about }: Finding): string =>
  `${certainty === 'likely' ? 'probably ' : ''}${causes[code]}${about === undefined ? '' : ` (${about})`} [${code}]`;

const brief = (finding: Finding): string => `${describe(finding)}: ${finding.evidence[0] ?? ''}; ${finding.fix}`;

function some(lines: readonly string[], most: number): readonly string[] {
  return lines.length <= most ? lines : [...lines.slice(0, most), `… ${lines.length - most} more (-o json has all)`];
}

/**
 * A diagnosis as the document of findings that every command which judges prints for tools (`@sluice/cli`). A cause, certain or likely, is
 * an error; what could not be examined was not judged.
 * @param program `sluiced`, and its version
 */
export function diagnosisFindings(
  program: { readonly name: string; readonly version: string },
  { subject, cause, others, notes, unread }: Diagnosis,
) {
  const found = [...(cause ? [cause] : []), ...others, ...notes];
  const verdict = cause ? `${subject}: ${causes[cause.code]}` : `${subject}: no cause found`;
  const gaps = unread.map(({ what, because }) => ({
    group: subject,
    name: `not read: ${what}`,
    text: because,
    isJudged: false,
  }));
  return {
    command: `${program.name} doctor`,
    version: program.version,
    rules: Object.entries(causes).map(([id, title]) => ({ id, title })),
    findings: found.map((one) => findingOf(subject, one)),
    examined: [...(cause ? [] : [{ group: subject, name: verdict, text: '', isJudged: true }]), ...gaps],
    closing: [...unread.map(({ what, because }) => `not read ${what}: ${because}`), verdict],
    verdict,
  };
}

function findingOf(subject: string, { code, certainty, about = subject, evidence, fix }: Finding) {
  return {
    rule: code,
    level: certainty === 'note' ? ('note' as const) : ('error' as const),
    group: subject,
    about,
    message: `${certainty === 'likely' ? 'probably ' : ''}${causes[code]}`,
    head: `${about}: ${causes[code]} [${code}]`,
    details: [...evidence, fix],
    identity: `${code} ${about}`,
  };
}
