import { basename, dirname } from 'node:path';
import { addAll, compareText, type Problem, refusal } from '@sluice/netfilter';
import type { Allocation } from '../../render/allocate/allocation.ts';
import { readAllocation, type ReadAllocations } from '../allocations.ts';
import { runGit, whyGit } from './run-git.ts';

const bounds = { outputBytesMax: 64 * 1024 * 1024, timeoutMs: 30_000 } as const;

/**
 * Reads the allocation files of a revision from the object store; the work tree is not touched.
 * @param directory the allocations directory of this checkout
 * @param revision a branch, tag or commit, such as `origin/main`
 */
export function readAllocationsAt(directory: string, revision: string): ReadAllocations {
  // A revision that starts with a dash would be an option.
  if (!/^[A-Za-z0-9_][\w./~^@{}-]*$/.test(revision)) return unreadable(revision, 'it is not a valid revision');
  const allocations: Allocation[] = [];
  const problems: Problem[] = [];
  try {
    // Relative to the directory's parent, so that it works from anywhere inside the checkout.
    const listed = readGit(dirname(directory), [
      'ls-tree',
      '-r',
      '-z',
      '--name-only',
      revision,
      '--',
      `${basename(directory)}/`,
    ]);
    for (const path of listed
      .split('\0')
      .filter((name) => name.endsWith('.yaml'))
      .toSorted(compareText)) {
      const read = readAllocation(
        `${revision}:${path}`,
        readGit(dirname(directory), ['cat-file', 'blob', `${revision}:./${path}`]),
      );
      if ('problems' in read) addAll(problems, read.problems);
      else allocations.push(read);
    }
  } catch (error) {
    return unreadable(revision, whyGit(error));
  }
  return { allocations, problems };
}

const readGit = (directory: string, args: readonly string[]): string =>
  runGit(directory, args, bounds).toString('utf8');

function unreadable(revision: string, why: string): ReadAllocations {
  const problem: Problem = refusal(
    'INPUT_UNREADABLE',
    `Cannot read the allocations of ${revision}: ${why}`,
    'Run the command inside the Git checkout with the config, and pass an existing revision',
  );
  return { allocations: [], problems: [problem] };
}
