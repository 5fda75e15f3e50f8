import type { DestinationStream } from 'pino';

/** Where lines of the log go, which decides their form. */
export type LogForm = 'journal' | 'terminal' | 'plain';

/** Severity numbers of syslog (RFC 5424, section 6.2.1), by pino's levels: systemd takes `<N>` at the start of a line for it. */
const priorities: ReadonlyMap<number, number> = new Map([
  [60, 2],
  [50, 3],
  [40, 4],
  [30, 6],
]);
const words: ReadonlyMap<number, string> = new Map([
  [60, 'FATAL'],
  [50, 'ERROR'],
  [40, 'WARN '],
  [30, 'INFO '],
]);

/** The form for an output: systemd names its own journal in JOURNAL_STREAM. */
export function logForm(environment: Readonly<Record<string, string | undefined>>, isTerminal: boolean): LogForm {
  if (isTerminal) return 'terminal';
  return environment['JOURNAL_STREAM'] === undefined ? 'plain' : 'journal';
}

/**
 * A stream that gives pino's JSON lines the form of their reader: for the journal a priority in front, for a terminal words.
 * @param out takes one finished line at a time
 */
export function formedStream(form: LogForm, out: DestinationStream): DestinationStream {
  if (form === 'plain') return out;
  return { write: (line) => out.write(form === 'journal' ? withPriority(line) : readable(line)) };
}

function withPriority(line: string): string {
  const level = Number(/^\{"level":(\d+)/.exec(line)?.[1]);
  return `<${priorities.get(level) ?? 7}>${line}`;
}

function readable(line: string): string {
  const { level, time, msg, ...details } = JSON.parse(line) as Record<string, unknown>;
  const said = Object.entries(details).map(
    ([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`,
  );
  const at = new Date(Number(time)).toISOString().slice(11, 19);
  return `${[at, words.get(Number(level)) ?? 'DEBUG', String(msg), ...said].join(' ')}\n`;
}
