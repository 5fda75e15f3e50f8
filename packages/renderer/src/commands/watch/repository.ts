import { existsSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { writingGit } from '@sluice/cli';
import { findProgram } from '@sluice/transport/files/program.ts';
import { execa } from 'execa';
import { repairRepository } from './leftovers.ts';
import { firstMessageOf, messageOf } from './message.ts';

const commandTimeoutMs = 60_000;

interface GitOutput {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** The changed objects of a commit, and the bundle in the directory. */
interface Recorded {
  readonly about: readonly string[];
  readonly files: BundleFiles;
}

/** The Git work tree of a bundle directory: commits, pushes and rebases of that directory. */
export class BundleRepository {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Removes the leftovers of a killed git. Call it only while no other git runs.
   * @returns what was done, in sentences
   */
  async repair(): Promise<readonly string[]> {
    return await repairRepository(existing(this.#dir), (args) => this.#git(args));
  }

  /** The first prerequisite that is missing for commits, and for pushes if `isPushing`. */
  async missingPrerequisite(isPushing: boolean): Promise<Problem | undefined> {
    const inside = await this.#git(['rev-parse', '--is-inside-work-tree']);
    if (inside.stdout !== 'true')
      return unready(`commit ${this.#dir}`, 'it is not in a Git work tree', 'Clone the repository of the rules there');
    const author = await this.#git(['var', 'GIT_COMMITTER_IDENT']);
    if (author.exitCode !== 0)
      return unready(`commit ${this.#dir}`, lastLine(author.stderr), 'Set user.name and user.email in the Git config');
    if (!isPushing) return undefined;
    const upstream = await this.#git(['rev-parse', '--symbolic-full-name', '@{upstream}']);
    if (upstream.exitCode === 0) return undefined;
    if ((await this.#git(['symbolic-ref', '--quiet', 'HEAD'])).exitCode !== 0)
      return unready(`push ${this.#dir}`, 'no branch is checked out', 'Check out the branch to push');
    return unready(`push ${this.#dir}`, lastLine(upstream.stderr), 'Run git push --set-upstream once for the branch');
  }

  /**
   * Commits the directory and nothing else.
   * @returns the first line of the message; undefined without changes
   * @throws Error with the message of Git
   */
  async record({ about, files }: Recorded): Promise<string | undefined> {
    await this.#must(['add', '--all', '--', '.']);
    const staged = await this.#git(['diff', '--cached', '--quiet', '--', '.']);
    if (staged.exitCode === 0) return undefined;
    // It fails before the first commit.
    const committed = await this.#git(['ls-tree', '--name-only', 'HEAD']);
    const message = committed.stdout === '' ? firstMessageOf(files) : messageOf(about);
    await this.#must(['commit', '--quiet', '--no-verify', '--message', message, '--', '.']);
    return message.split('\n', 1)[0];
  }

  /** @returns why the push failed; undefined after success */
  async push(): Promise<string | undefined> {
    const { exitCode, stderr } = await this.#git(['push', '--quiet']);
    return exitCode === 0 ? undefined : stderr;
  }

  /** @returns why the fetch failed; undefined after success */
  async fetch(): Promise<string | undefined> {
    const { exitCode, stderr } = await this.#git(['fetch', '--quiet']);
    return exitCode === 0 ? undefined : stderr;
  }

  /**
   * Rebases unpushed commits onto the remote branch. After a conflict, such as a removed file that was changed there, they become one
   * commit: the directory belongs to this process, so its files are right.
   */
  async rebase(recorded: Recorded): Promise<void> {
    // Rejected for another reason, such as a hook: a rebase would only fail on files of the next publication.
    if ((await this.#git(['merge-base', '--is-ancestor', '@{upstream}', 'HEAD'])).exitCode === 0) return;
    // Both sides are renders of the same cluster: in a conflict, the file of this process is newer.
    const rebased = await this.#git(['rebase', '--quiet', '--strategy-option', 'theirs', '@{upstream}']);
    if (rebased.exitCode === 0) return;
    await this.#git(['rebase', '--abort']);
    const prefix = (await this.#git(['rev-parse', '--show-prefix'])).stdout;
    await this.#must(['reset', '--quiet', '--mixed', '@{upstream}']);
    if (prefix !== '') await this.#git(['checkout', '--quiet', 'HEAD', '--', ':(top)', `:(top,exclude)${prefix}`]);
    await this.record(recorded);
  }

  /**
   * Resets the directory to the remote branch: the last good text of a Service is there, and not in an older local state.
   */
  async follow(): Promise<void> {
    // Both fail where there is nothing to do: in an empty repository, and with unpushed commits.
    await this.#git(['restore', '--source=@{upstream}', '--staged', '--worktree', '--', '.']);
    await this.#git(['merge', '--quiet', '--ff-only', '@{upstream}']);
  }

  async #must(args: readonly string[]): Promise<void> {
    const { exitCode, stderr } = await this.#git(args);
    if (exitCode !== 0) throw new Error(`Cannot commit ${this.#dir}: git ${args[0]}: ${stderr}`);
  }

  async #git(args: readonly string[]): Promise<GitOutput> {
    const { args: all, ...how } = writingGit(existing(this.#dir), args, process.env);
    const { exitCode, stdout, stderr, message } = await execa(gitPath(), all, {
      ...how,
      stdin: 'ignore',
      reject: false,
      timeout: commandTimeoutMs,
    });
    return { exitCode, stdout, stderr: stderr || (exitCode === 0 ? '' : (message ?? '')) };
  }
}

function unready(what: string, why: string, hint: string): Problem {
  return { code: 'GIT_UNREADY', level: 'error', message: `Cannot ${what}: ${why}`, hint };
}

const lastLine = (text: string): string => text.trim().split('\n').at(-1) ?? '';

/** The directory, or its nearest existing parent. */
function existing(dir: string): string {
  const path = resolve(dir);
  return existsSync(path) || dirname(path) === path ? path : existing(dirname(path));
}

let found: string | undefined;

/** The absolute path of git, looked up once: a file that appears in PATH later is not used. */
function gitPath(): string {
  found ??= findProgram('git', process.env['PATH']);
  if (found === undefined) throw new Error('Cannot commit: git is not installed');
  return realpathSync(found);
}
