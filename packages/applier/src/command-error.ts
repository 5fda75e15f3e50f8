import type { Problem } from '@sluice/bundle';
import { exitCodes } from './rollout/outcome.ts';

/** A problem that ends a command: what is wrong, with the exit code. */
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

/** What the node's state does not allow. @param exitCode of the command; a usage error unless told otherwise */
export function stateError(message: string, hint: string, exitCode?: number): CommandError {
  return new CommandError([{ code: 'NODE_STATE_INVALID', level: 'error', message, hint }], exitCode);
}
