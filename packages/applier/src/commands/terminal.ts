import { readFileSync } from 'node:fs';
import { printProblem, type Problem } from '@sluice/bundle';
import { CommandError } from '../command-error.ts';
import { type Config, defaultConfig, nodeMisfit, readConfig } from '../config.ts';
import { StateError } from '../store/state-error.ts';
import { describe, exitCodes, type Outcome, rating } from '../rollout/outcome.ts';

/** Where commands write; main.ts gives the process's own. */
export interface Terminal {
  out(text: string): void;
  err(text: string): void;
  /** Asks somebody who sits there, and takes anything but yes for no; left out where nobody does. */
  ask?(question: string): Promise<boolean>;
}

/** The options that several commands share. */
export interface CommonOptions {
  readonly config?: string;
  readonly node?: string;
  readonly state?: string;
  /** Wins over the policy of the config. */
  readonly signatures?: 'required' | 'none';
  /** False with `--no-rehearse`. */
  readonly rehearse?: boolean;
}

export const defaultConfigPath = '/etc/sluice/sluiced.yaml';

/**
 * The config of a command: the file that was named, or the usual one if it is there, or the defaults for a node that was named.
 * Flags win over the file.
 * @throws CommandError with every problem of the file, or of a flag
 */
export function loadConfig(options: CommonOptions): Config {
  const path = options.config ?? defaultConfigPath;
  const text = readText(path, options.config !== undefined);
  const misfit = options.node === undefined ? undefined : nodeMisfit(options.node);
  if (misfit !== undefined) {
    const hint = 'Names of nodes are small letters, digits, dashes and dots: `kubectl get nodes` lists them';
    throw new CommandError([configProblem(`Cannot take --node ${JSON.stringify(options.node)}: ${misfit}`, hint)]);
  }
  if (text === undefined && options.node === undefined) {
    const hint = `Write ${defaultConfigPath} (docs/sluiced.yaml shows every field), or name the node with --node`;
    throw new CommandError([configProblem(`Cannot read ${path}: it is not there`, hint)]);
  }
  const config = text === undefined ? defaultConfig(options.node ?? '') : readConfig(path, text);
  if ('problems' in config) throw new CommandError(config.problems);
  return {
    ...config,
    ...(options.node ? { node: options.node } : {}),
    ...(options.state ? { state: options.state } : {}),
    ...(options.signatures ? { signatures: { ...config.signatures, policy: options.signatures } } : {}),
    ...(options.rehearse === false ? { rehearse: 'off' as const } : {}),
  };
}

function readText(path: string, required: boolean): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' && !required) return undefined;
    throw new CommandError([configProblem(`Cannot read ${path}: ${message}`, 'Name the file with -c')]);
  }
}

function configProblem(message: string, hint: string): Problem {
  return { code: 'NODE_CONFIG_INVALID', level: 'error', message, hint };
}

/** Prints how a bundle ended, with every problem of a refusal. Returns the exit code. */
export function tell(outcome: Outcome, terminal: Terminal): number {
  if (outcome.kind === 'refused') tellProblems(outcome.refusal.problems, terminal);
  terminal.out(`${describe(outcome)}\n`);
  return rating[outcome.kind].exitCode;
}

export function tellProblems(problems: readonly Problem[], terminal: Terminal): void {
  for (const problem of problems) terminal.err(printProblem(problem));
}

/** What an error that a command could not deal with prints, and its exit code. */
export function tellError(error: unknown, terminal: Terminal): number {
  if (error instanceof CommandError) {
    tellProblems(error.problems, terminal);
    return error.exitCode;
  }
  if (error instanceof StateError) {
    tellProblems([{ code: error.code, level: 'error', message: error.message, hint: error.hint }], terminal);
    return exitCodes.refused;
  }
  terminal.err(`error: ${error instanceof Error ? error.message : String(error)}\n`);
  return exitCodes.problem;
}
