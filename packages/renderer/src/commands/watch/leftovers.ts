import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { sleep } from '../../cluster/sleep.ts';

/** The time that a command of an operator may hold a lock. An older lock is stale, as no git of the watcher runs. */
const staleMs = 5_000;
const lookMs = 100;

/** Runs git in the directory. */
type Git = (args: readonly string[]) => Promise<{ readonly exitCode: number | undefined; readonly stdout: string }>;

/** The parts of a repository that a killed git may leave locked or in a rebase. */
interface RepositoryState {
  readonly gitDir: string;
  /** The directory of the refs, which a linked work tree shares. */
  readonly commonDir: string;
  /** `refs/heads/main`, also during a rebase; undefined for a detached HEAD. */
  readonly branch: string | undefined;
  readonly git: Git;
}

/**
 * Removes the leftovers of a killed git: stale locks, which make every other git fail, and a rebase, during which HEAD is detached.
 * No other git may run in the repository: a directory belongs to one watcher.
 * @param dir the directory that `git` runs in
 * @returns what was done, in sentences; empty for an intact repository and without one
 */
export async function repairRepository(dir: string, git: Git): Promise<readonly string[]> {
  const state = await stateOf(dir, git);
  if (state === undefined) return [];
  const unlocked = await unlock(state);
  return [...unlocked, ...(await endRebase(state))];
}

async function stateOf(dir: string, git: Git): Promise<RepositoryState | undefined> {
  const found = await git(['rev-parse', '--git-dir', '--git-common-dir']);
  const [gitDir, commonDir] = found.stdout.split('\n');
  if (found.exitCode !== 0 || gitDir === undefined || commonDir === undefined) return undefined;
  const state = { gitDir: resolve(dir, gitDir), commonDir: resolve(dir, commonDir), git };
  return { ...state, branch: rebasedBranch(state.gitDir) ?? (await checkedOut(git)) };
}

async function checkedOut(git: Git): Promise<string | undefined> {
  const { exitCode, stdout } = await git(['symbolic-ref', '--quiet', 'HEAD']);
  return exitCode === 0 ? stdout : undefined;
}

/** The branch that a rebase returns to. */
function rebasedBranch(gitDir: string): string | undefined {
  const file = join(gitDir, 'rebase-merge', 'head-name');
  const name = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  return /^refs\/heads\/(?!.*\.\.)\S+$/.test(name) ? name : undefined;
}

async function unlock(state: RepositoryState): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const lock of await locksOf(state)) if ((await isStale(lock)) && remove(lock)) removed.push(lock);
  return removed.map((lock) => `removed ${lock} of a killed git`);
}

/** The existing locks of all git commands in `BundleRepository`. */
async function locksOf({ gitDir, commonDir, branch, git }: RepositoryState): Promise<readonly string[]> {
  const upstream = branch === undefined ? '' : (await git(['for-each-ref', '--format=%(upstream)', branch])).stdout;
  const refs = [branch ?? '', upstream].filter((ref) => ref !== '');
  // A commit of some paths writes the next index beside the current one.
  const indexes = readdirSync(gitDir).filter((name) => /^next-index-\d+\.lock$/.test(name));
  return [
    ...['index.lock', 'HEAD.lock', 'ORIG_HEAD.lock', ...indexes].map((name) => join(gitDir, name)),
    ...['shallow.lock', ...refs.map((ref) => `${ref}.lock`)].map((name) => join(commonDir, name)),
  ].filter((lock) => existsSync(lock));
}

/** Waits until a lock is old enough to be stale. @returns false when it changes or disappears */
async function isStale(lock: string): Promise<boolean> {
  const first = changedMs(lock);
  if (first === undefined) return false;
  const waitMs = Math.min(staleMs, first + staleMs - Date.now());
  for (const end = performance.now() + waitMs; performance.now() < end; await sleep(lookMs))
    if (changedMs(lock) !== first) return false;
  return changedMs(lock) === first;
}

const changedMs = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.mtimeMs;

/** @returns false when it cannot be removed: then the next command fails with the reason */
function remove(lock: string): boolean {
  try {
    rmSync(lock, { force: true });
    return true;
  } catch {
    return false;
  }
}

/** Returns the branch to its state before a rebase. Its commits are rebased again at the next push. */
async function endRebase({ gitDir, branch, git }: RepositoryState): Promise<readonly string[]> {
  const state = join(gitDir, 'rebase-merge');
  if (!existsSync(state)) return [];
  const aborted = await git(['rebase', '--abort']);
  if (aborted.exitCode === 0) return [`aborted an interrupted rebase in ${gitDir}`];
  // It was killed before it recorded the original HEAD.
  await git(['rebase', '--quit']);
  if (branch !== undefined) await git(['checkout', '--quiet', '--force', branch.replace('refs/heads/', '')]);
  return existsSync(state)
    ? []
    : [`quit a rebase in ${gitDir} that could not be aborted and checked out ${branch ?? 'HEAD'}`];
}
