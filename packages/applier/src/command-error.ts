import { type Problem, type ProblemCode, refusal } from '@sluice/netfilter';
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

/** An error with one problem. @param exitCode of the command; a usage error by default */
export const commandError = (code: ProblemCode, message: string, hint: string, exitCode?: number): CommandError =>
  new CommandError([refusal(code, message, hint)], exitCode);

/** The node's state does not allow the command. @param exitCode as of `commandError` */
export const stateError = (message: string, hint: string, exitCode?: number): CommandError =>
  commandError('NODE_STATE_INVALID', message, hint, exitCode);
