import { type Logger, pino, stdTimeFunctions } from 'pino';
import { priorities, type Severity } from './journal.ts';
import { type LogLevel, logLevels, type LogSettings } from './log-options.ts';
import { printable } from './printable.ts';

export type { LogFormat, LogLevel, LogSettings } from './log-options.ts';

/** The log of a long-running program. Details are fields of the entry, for programs; the message is for people. */
export interface Log {
  debug(details: object, message: string): void;
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
  fatal(details: object, message: string): void;
}

/** The sink of log lines. */
interface LogOutput {
  write(line: string): unknown;
  /** `isJournal`: the journal adds the time itself, and reads the priority from the line. */
  readonly isJournal: boolean;
}

/** A log whose level can be changed while the program runs. */
export interface AdjustableLog extends Log {
  readonly level: LogLevel;
  /** Raises the level of detail by one, up to the maximum, and logs the new level. */
  moreDetail(): void;
  lessDetail(): void;
}

/** pino's names → ours. */
const named = { debug: 'debug', info: 'info', warn: 'warning', error: 'error', fatal: 'critical' } as const;

const pinoNames = { debug: 'debug', info: 'info', warning: 'warn', error: 'error' } as const;

/** Makes the log of a program. One entry is one line of printable text, for any message and details. */
export function makeLog({ format, level }: LogSettings, output: LogOutput): AdjustableLog {
  const form = format === 'json' ? (line: string): string => line : textForm(output.isJournal);
  const write = (line: string): void => {
    const name = (JSON.parse(line) as { readonly level: Severity }).level;
    output.write(printable(`${output.isJournal ? `<${priorities[name]}>` : ''}${form(line)}`));
  };
  const log = pino(
    {
      base: null,
      level: pinoNames[level],
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: named[label as keyof typeof named] }) },
    },
    { write },
  );
  return adjustable(log, level);
}

function adjustable(log: Logger, first: LogLevel): AdjustableLog {
  let level = first;
  const step = (by: 1 | -1): void => {
    level = logLevels[logLevels.indexOf(level) + by] ?? level;
    // Logged at every level: an operator who sent a signal must see its effect.
    log.level = 'info';
    log.info({ logLevel: level }, `log level is ${level}`);
    log.level = pinoNames[level];
  };
  return {
    get level() {
      return level;
    },
    debug: (details, message) => log.debug(details, message),
    info: (details, message) => log.info(details, message),
    warn: (details, message) => log.warn(details, message),
    error: (details, message) => log.error(details, message),
    fatal: (details, message) => log.fatal(details, message),
    moreDetail: () => step(-1),
    lessDetail: () => step(1),
  };
}

/** `2026-11-21T09:30:00.000Z warning: MESSAGE steps=2`; without the time for the journal, which adds it. */
function textForm(isForJournal: boolean): (line: string) => string {
  return (line) => {
    const { time, level, msg, ...details } = JSON.parse(line) as Readonly<Record<string, unknown>>;
    const start = isForJournal ? '' : `${String(time)} `;
    const fields = Object.entries(details).map(([key, value]) => ` ${key}=${printed(value)}`);
    return `${start}${String(level)}: ${String(msg).replaceAll(/\s*\n\s*/g, ' ')}${fields.join('')}\n`;
  };
}

/** A single word is printed as it is, everything else in JSON, which has no line breaks. */
const printed = (value: unknown): string =>
  typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value);
