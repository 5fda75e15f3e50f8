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
