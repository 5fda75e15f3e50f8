import type { Command } from 'commander';
import type { CommonOptions, Terminal } from '../terminal/terminal.ts';

/** What the process provides to its commands. */
export interface CommandContext {
  readonly terminal: Terminal;
  /** Runs a command and sets the process's exit code from its result. */
  readonly finish: (work: () => Promise<number>) => Promise<void>;
  /** Of the process. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Runs `sluiced run`, which also needs the process's clock, signals and environment. */
  readonly runDaemon: (options: CommonOptions) => Promise<number>;
}

/** The action of a verb, whose code is loaded when it runs: it gets what the verb was called with, and the terminal. */
export const verb =
  <Given extends unknown[]>(
    { terminal, finish }: CommandContext,
    load: () => Promise<(...given: [...Given, Terminal]) => Promise<number>>,
  ) =>
  (...given: [...Given, Command]): Promise<void> =>
    finish(async () => (await load())(...(given.slice(0, -1) as Given), terminal));
