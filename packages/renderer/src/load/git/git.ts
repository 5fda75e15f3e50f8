import { basename, dirname } from 'node:path';
import { addAll, compareText, type Problem, refusal } from '@sluice/netfilter';
import { readTreeLines } from '@sluice/cli';
import type { Allocation } from '../../render/allocate/allocation.ts';
import { readAllocation, type ReadAllocations } from '../allocations.ts';
import { askGit, readBlobs } from './objects.ts';
import { isRevision } from './revision.ts';
import { whyGit } from './run-git.ts';

/**
 * Reads the allocation files of a revision from the object store; the work tree is not touched.
 * @param directory the allocations directory of this checkout
 * @param revision a branch, tag or commit, such as `origin/main`
 */
export function readAllocationsAt(directory: string, revision: string): ReadAllocations {
  if (!isRevision(revision)) return unreadable(revision, 'it is not a valid revision');
  const allocations: Allocation[] = [];
  const problems: Problem[] = [];
  // Paths are relative to the directory's parent, so that it works from anywhere inside the checkout.
  const parent = { directory: dirname(directory) };
  try {
    const listed = readTreeLines(askGit(parent, ['ls-tree', '-r', '-z', revision, '--', `${basename(directory)}/`]))
      .filter(({ path }) => path.endsWith('.yaml'))
      .toSorted((one, other) => compareText(one.path, other.path));
    const texts = readBlobs(
      parent,
      listed.map(({ id }) => id),
    );
    for (const { path, id } of listed) {
      const read = readAllocation(`${revision}:${path}`, texts.get(id)!);
      if ('problems' in read) addAll(problems, read.problems);
      else allocations.push(read);
    }
  } catch (error) {
    return unreadable(revision, whyGit(error));
  }
  return { allocations, problems };
}

function unreadable(revision: string, why: string): ReadAllocations {
  const problem: Problem = refusal(
    'INPUT_UNREADABLE',
    `Cannot read the allocations of ${revision}: ${why}`,
    'Run the command inside the Git checkout with the config, and pass an existing revision',
  );
  return { allocations: [], problems: [problem] };
}
