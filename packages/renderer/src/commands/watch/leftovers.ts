import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { sleep } from '../../cluster/sleep.ts';

/** So long the command of a person in the same repository may take: an older lock is nobody's, as no git of the watcher runs. */
const staleMs = 5_000;
const lookMs = 100;

/** Runs git in the directory. */
export type Git = (
  args: readonly string[],
) => Promise<{ readonly exitCode: number | undefined; readonly stdout: string }>;

/** A repository with what stands in it, as far as a killed git leaves it. */
interface Place {
  readonly gitDir: string;
  /** Where the refs are: of a linked work tree not in its own directory. */
  readonly commonDir: string;
  /** `refs/heads/main`, also while a rebase is on; undefined where no branch is checked out. */
  readonly branch: string | undefined;
  readonly git: Git;
}

/**
 * Takes away what a git that was killed left: locks, with which every other one fails, and a rebase, during which no branch is checked out.
 * Nothing else may be at work in the repository: a directory is one watcher's own.
 * @param dir what `git` runs in
 * @returns what was done, in sentences; nothing in a sound repository and where there is none
 */
export async function mendLeftovers(dir: string, git: Git): Promise<readonly string[]> {
  const place = await placeOf(dir, git);
  if (place === undefined) return [];
  const unlocked = await unlock(place);
  return [...unlocked, ...(await endRebase(place))];
}

async function placeOf(dir: string, git: Git): Promise<Place | undefined> {
  const found = await git(['rev-parse', '--git-dir', '--git-common-dir']);
  const [gitDir, commonDir] = found.stdout.split('\n');
  if (found.exitCode !== 0 || gitDir === undefined || commonDir === undefined) return undefined;
  const place = { gitDir: resolve(dir, gitDir), commonDir: resolve(dir, commonDir), git };
  return { ...place, branch: rebasedBranch(place.gitDir) ?? (await checkedOut(git)) };
}

async function checkedOut(git: Git): Promise<string | undefined> {
  const { exitCode, stdout } = await git(['symbolic-ref', '--quiet', 'HEAD']);
  return exitCode === 0 ? stdout : undefined;
}

/** The branch that a rebase is to go back to. */
function rebasedBranch(gitDir: string): string | undefined {
  const file = join(gitDir, 'rebase-merge', 'head-name');
  const name = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  return /^refs\/heads\/(?!.*\.\.)\S+$/.test(name) ? name : undefined;
}

async function unlock(place: Place): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const lock of await locksOf(place)) if ((await isStale(lock)) && remove(lock)) removed.push(lock);
  return removed.map((lock) => `took away ${lock}, which a git that was killed had left`);
}

/** The locks that there can be of what `Repository` does. */
async function locksOf({ gitDir, commonDir, branch, git }: Place): Promise<readonly string[]> {
  const upstream = branch === undefined ? '' : (await git(['for-each-ref', '--format=%(upstream)', branch])).stdout;
  const refs = [branch ?? '', upstream].filter((ref) => ref !== '');
  // A commit of some paths makes the next index beside the one that there is.
  const indexes = readdirSync(gitDir).filter((name) => /^next-index-\d+\.lock$/.test(name));
  return [
    ...['index.lock', 'HEAD.lock', 'ORIG_HEAD.lock', ...indexes].map((name) => join(gitDir, name)),
    ...['shallow.lock', ...refs.map((ref) => `${ref}.lock`)].map((name) => join(commonDir, name)),
  ].filter((lock) => existsSync(lock));
}

/** Waits until a lock is old, and no longer than a lock can be young. */
async function isStale(lock: string): Promise<boolean> {
  const first = changedMs(lock);
  if (first === undefined) return false;
  const waitMs = Math.min(staleMs, first + staleMs - Date.now());
  for (const end = performance.now() + waitMs; performance.now() < end; await sleep(lookMs))
    if (changedMs(lock) !== first) return false;
  return changedMs(lock) === first;
}

const changedMs = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.mtimeMs;

/** @returns false when it cannot be removed: then the next command says what it is that fails */
function remove(lock: string): boolean {
  try {
    rmSync(lock, { force: true });
    return true;
  } catch {
    return false;
  }
}

/** Makes the branch what it was before a rebase. What it was to lay over what others pushed is pushed anew. */
async function endRebase({ gitDir, branch, git }: Place): Promise<readonly string[]> {
  const state = join(gitDir, 'rebase-merge');
  if (!existsSync(state)) return [];
  const aborted = await git(['rebase', '--abort']);
  if (aborted.exitCode === 0) return [`took back a rebase in ${gitDir} that was not brought to its end`];
  // It was killed before it had written where it began.
  await git(['rebase', '--quit']);
  if (branch !== undefined) await git(['checkout', '--quiet', '--force', branch.replace('refs/heads/', '')]);
  return existsSync(state) ? [] : [`left a rebase in ${gitDir} that could not be taken back for ${branch ?? 'HEAD'}`];
}
