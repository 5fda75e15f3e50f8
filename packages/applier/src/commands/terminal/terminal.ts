import { resolve } from 'node:path';
import { printProblem, type Problem, refusal } from '@sluice/netfilter';
import { document, reasonOf } from '@sluice/cli';
import type { AdjustableLog, LogFormat, LogLevel, LogSettings } from '@sluice/cli/log';
import { CommandError, commandError } from '../../command-error.ts';
import { type SluicedConfig, defaultConfig, nodeMisfit, readConfig } from '../../config.ts';
import { linksMax, readTrusted } from '../../inbox/descend.ts';
import { configTrust, InboxError, type Trust } from '../../inbox/trust.ts';
import { limits } from '../../limits.ts';
import { StateError } from '../../state/state-error.ts';
import { describe, exitCodes, type Outcome, partialOf, rateOutcome } from '../../ports/outcome.ts';

/** The output of commands; main.ts provides the process's own. */
export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /** Every problem that was printed, for documents. */
  readonly problems?: Problem[];
  /** Opens the log, for a command that runs unattended. */
  openLog?(settings: LogSettings): Promise<AdjustableLog>;
  /** Asks the operator a yes-or-no question; left out without a terminal. */
  ask?(question: string): Promise<boolean>;
  /** Where the output is a terminal. */
  readonly screen?: Screen;
}

/** A terminal whose page a command can show again. */
export interface Screen {
  /** Its height in lines. */
  readonly rows: number;
  /** Clears the terminal, and prints a page that fits on it. */
  show(page: string): void;
  /** Waits. @returns false when the operator pressed Ctrl-C meanwhile */
  pause(ms: number): Promise<boolean>;
}

/** The lines that fit on a terminal. One behind a serial line or in `script` has a height of 0: it is not known. */
export function pageOf(text: string, { rows }: Screen): string {
  const lines = text.split('\n').slice(0, Math.max((rows === 0 ? 24 : rows) - 1, 1));
  return `${lines.join('\n')}\n`;
}

/** The options that several commands share. */
export interface CommonOptions {
  readonly config?: string;
  readonly node?: string;
  readonly state?: string;
  /** Overrides the policy of the config. */
  readonly signatures?: 'required' | 'none';
  /** False with `--no-rehearse`. */
  readonly rehearse?: boolean;
  /** Of commands that run unattended; both override the config. */
  readonly logFormat?: LogFormat;
  readonly logLevel?: LogLevel;
  /** The output format. */
  readonly output?: string;
}

const defaultConfigPath = '/etc/sluice/sluiced.yaml';

/**
 * Loads the config of a command: the file given with -c, or the default file if it exists, or the defaults for the node given with --node.
 * Flags override the file.
 * @param untrusted takes the problem of a file that others can write, which is read nonetheless; left out: such a file is refused
 * @throws CommandError with every problem of the file, or of a flag
 */
export function loadConfig(options: CommonOptions, untrusted?: (problem: Problem) => void): SluicedConfig {
  const path = options.config ?? defaultConfigPath;
  const text = readText(path, options.config !== undefined, untrusted);
  const misfit = options.node === undefined ? undefined : nodeMisfit(options.node);
  if (misfit !== undefined) {
    const hint = 'Node names have lower-case letters, digits, dashes and dots: `kubectl get nodes` lists them';
    throw configError(`Cannot use --node ${JSON.stringify(options.node)}: ${misfit}`, hint);
  }
  if (text === undefined && options.node === undefined) {
    const hint = `Write ${defaultConfigPath} with \`sluiced init\`, or pass the node's name with --node`;
    throw configError(`Cannot read ${path}: no such file or directory`, hint);
  }
  const config = text === undefined ? defaultConfig(options.node ?? '') : readConfig(path, text);
  if ('problems' in config) throw new CommandError(config.problems);
  return {
    ...config,
    ...(options.node ? { node: options.node } : {}),
    ...(options.state ? { state: options.state } : {}),
    ...(options.signatures ? { signatures: { ...config.signatures, policy: options.signatures } } : {}),
    ...(options.rehearse === false ? { rehearse: 'off' as const } : {}),
    ...(options.logFormat ? { logFormat: options.logFormat } : {}),
    ...(options.logLevel ? { logLevel: options.logLevel } : {}),
  };
}

export const logSettings = ({ logFormat, logLevel }: SluicedConfig): LogSettings => ({
  format: logFormat,
  level: logLevel,
});

function readText(
  path: string,
  required: boolean,
  untrusted: ((problem: Problem) => void) | undefined,
): string | undefined {
  const read = (trust: Trust | undefined): string =>
    readTrusted(resolve(path), trust, limits.configBytesMax, linksMax).toString('utf8');
  try {
    return read(configTrust());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT' && !required) return undefined;
    if (error instanceof InboxError) {
      const { message, hint } = error;
      if (error.code !== 'BUNDLE_UNTRUSTED') throw configError(message, hint);
      const problem = refusal('NODE_CONFIG_UNTRUSTED', message, hint);
      if (!untrusted) throw new CommandError([problem]);
      untrusted(problem);
      return read(undefined);
    }
    throw configError(
      `Cannot read ${path}: ${reasonOf(Object.assign(error as Error, { path }))}`,
      'Pass the path of the config with -c',
    );
  }
}

/** A problem of the config as a whole. */
export const configError = (message: string, hint: string): CommandError =>
  commandError('NODE_CONFIG_INVALID', message, hint);

/** @throws CommandError (`NODE_NOT_ROOT`) for users who cannot read the rules of the kernel */
export function mustBeRoot(message: string, hint: string): void {
  if (process.geteuid?.() !== 0) throw commandError('NODE_NOT_ROOT', message, hint, exitCodes.refused);
}

/**
 * Prints the result of a command, once: the document of its kind, or lines for the terminal.
 * @param fields of the document; readers ignore fields that they do not know
 */
export function answer(
  { output }: Pick<CommonOptions, 'output'>,
  terminal: Terminal,
  result: { readonly kind: string; readonly fields: object; readonly text: string },
): void {
  const { problems = [] } = terminal;
  terminal.out(output === 'json' ? document(result.kind, { ...result.fields, problems }) : result.text);
}

/** Where human-readable lines go: with `-o json` standard output holds one document and nothing else. */
export function linesOf({ output }: Pick<CommonOptions, 'output'>, terminal: Terminal): (text: string) => void {
  return output === 'json' ? (text) => terminal.err(text) : (text) => terminal.out(text);
}

/** Prints the outcome of a bundle, with every problem of a refusal. @returns the exit code */
export function printOutcome(
  outcome: Outcome,
  terminal: Terminal,
  options: Pick<CommonOptions, 'output'> = {},
): number {
  if (outcome.kind === 'refused') printProblems(outcome.refusal.problems, terminal);
  answer(options, terminal, { kind: 'Outcome', fields: outcomeFields(outcome), text: `${describe(outcome)}\n` });
  return rateOutcome(outcome).exitCode;
}

/** The outcome in the document; `because` is null without a failure. */
function outcomeFields(outcome: Outcome): object {
  const generation = 'generation' in outcome ? outcome.generation : undefined;
  return {
    outcome: outcome.kind,
    generation: generation?.number ?? null,
    version: generation?.version ?? null,
    steps: outcome.kind === 'confirmed' ? outcome.steps : 0,
    because: 'because' in outcome ? outcome.because : null,
    partial: partialOf(outcome) ?? null,
    rollbackFailed: outcome.kind === 'held' || outcome.kind === 'pending' ? outcome.rollback : null,
    failingProbes: (outcome.kind === 'confirmed' && outcome.failing) || [],
    lastEndpointsInMs: ('waitsMs' in outcome && outcome.waitsMs) || null,
  };
}

export function printProblems(problems: readonly Problem[], terminal: Terminal): void {
  for (const problem of problems) {
    terminal.problems?.push(problem);
    terminal.err(printProblem(problem));
  }
}

/** Prints an unhandled error of a command. @returns the exit code */
export function printFailure(error: unknown, terminal: Terminal): number {
  if (error instanceof CommandError) {
    printProblems(error.problems, terminal);
    return error.exitCode;
  }
  if (error instanceof StateError) {
    printProblems([refusal(error.code, error.message, error.hint)], terminal);
    return exitCodes.refused;
  }
  const message = error instanceof Error ? error.message : String(error);
  terminal.problems?.push(refusal('INTERNAL', message, 'Standard error says what was done before'));
  terminal.err(`error: ${message}\n`);
  return exitCodes.problem;
}

/** Runs what writes a file. @throws CommandError (`OUTPUT_UNWRITABLE`) for an error of it */
export async function writing(path: string, write: () => Promise<void>): Promise<void> {
  try {
    await write();
  } catch (error) {
    const message = `Cannot write ${path}: ${reasonOf(error)}`;
    const hint = 'Check the path, its permissions and the free space, and that no file is in the way';
    throw commandError('OUTPUT_UNWRITABLE', message, hint);
  }
}
