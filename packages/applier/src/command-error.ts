import type { Problem } from '@sluice/netfilter';
import { exitCodes } from './ports/outcome.ts';

/** Problems that end a command, with its exit code. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly problems: readonly Problem[];
  readonly exitCode: number;

  constructor(problems: readonly Problem[], exitCode: number = exitCodes.problem) {
    super(problems[0]?.message ?? 'failed');
    this.problems = problems;
    this.exitCode = exitCode;
  }
}

/** The node's state does not allow the command. @param exitCode of the command; a usage error by default */
export function stateError(message: string, hint: string, exitCode?: number): CommandError {
  return new CommandError([{ code: 'NODE_STATE_INVALID', level: 'error', message, hint }], exitCode);
}
