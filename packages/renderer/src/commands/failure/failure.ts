import { reasonOf } from '@sluice/cli';
import { type Problem, refusal, Stopped } from '@sluice/netfilter';
import { exitCodes } from '../../exit.ts';
import { reportProblems } from '../output/output.ts';

export { Stopped };

/**
 * Runs a function that reads `path`.
 * @throws Stopped with `INPUT_UNREADABLE` for an error of the file system
 */
export function reading<T>(path: string, read: () => T): T {
  return attempt(read, (why) =>
    refusal('INPUT_UNREADABLE', `Cannot read ${path}: ${why}`, 'Check the path and its permissions'),
  );
}

/**
 * Runs a function that writes `path`.
 * @throws Stopped with `OUTPUT_UNWRITABLE` for an error of the file system
 */
export function writing<T>(path: string, write: () => T): T {
  return attempt(write, (why) =>
    refusal(
      'OUTPUT_UNWRITABLE',
      `Cannot write ${path}: ${why}`,
      'Check the path, its permissions and the free space; then run the same command again',
    ),
  );
}

function attempt<T>(call: () => T, problem: (why: string) => Problem): T {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error && 'code' in error)) throw error;
    throw new Stopped(problem(reasonOf(error)));
  }
}

/**
 * What was read.
 * @throws Stopped with the problem where nothing was
 */
export function orStop<T>(read: T | Problem): Exclude<T, Problem> {
  if (typeof read === 'object' && read !== null && 'code' in read && 'hint' in read) throw new Stopped(read);
  return read as Exclude<T, Problem>;
}

/** Prints why a command failed. Returns the exit code. */
export function reportFailure(error: unknown): number {
  reportProblems(error instanceof Stopped ? error.problems : [internal(error)]);
  return exitCodes.problem;
}

const internal = (error: unknown): Problem =>
  refusal(
    'INTERNAL',
    `Internal error: ${error instanceof Error ? error.message : String(error)}`,
    'This is a bug in sluice: report it with the command and its input',
  );
