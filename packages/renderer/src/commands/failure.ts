import type { Problem } from '@sluice/bundle';
import { exitCodes } from '../exit.ts';
import { reasonOf } from '../load/reason.ts';
import { tellProblems } from './told.ts';

/** A problem outside the input that ends a command: a file system that does not give or take a file. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.message);
    this.problem = problem;
  }
}

/**
 * Runs what reads `path`.
 * @throws Stopped with `INPUT_UNREADABLE` when the file system refuses
 */
export function reading<T>(path: string, read: () => T): T {
  return attempt(read, (why) => ({
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot read ${path}: ${why}`,
    hint: 'Check the path and who may read it',
  }));
}

/**
 * Runs what writes `path`.
 * @throws Stopped with `OUTPUT_UNWRITABLE` when the file system refuses
 */
export function writing<T>(path: string, write: () => T): T {
  return attempt(write, (why) => ({
    code: 'OUTPUT_UNWRITABLE',
    level: 'error',
    message: `Cannot write ${path}: ${why}`,
    hint: 'Check the path, who may write there and how much space is left; then run the same command again',
  }));
}

function attempt<T>(call: () => T, problem: (why: string) => Problem): T {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error && 'code' in error)) throw error;
    throw new Stopped(problem(reasonOf(error)));
  }
}

/** Says why a command could not end as it should. Returns the exit code. */
export function tellFailure(error: unknown): number {
  tellProblems([error instanceof Stopped ? error.problem : internal(error)]);
  return exitCodes.problem;
}

function internal(error: unknown): Problem {
  return {
    code: 'INTERNAL',
    level: 'error',
    message: `Cannot go on: ${error instanceof Error ? error.message : String(error)}`,
    hint: 'This is a mistake in sluice: report it with the command and its input',
  };
}
