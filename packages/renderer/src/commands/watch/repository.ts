import { accessSync, constants, existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import type { BundleFiles, Problem } from '@sluice/bundle';
import { writingGit } from '@sluice/cli';
import { execa } from 'execa';
import { mendLeftovers } from './leftovers.ts';
import { firstMessageOf, messageOf } from './message.ts';

const commandTimeoutMs = 60_000;

interface Said {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

/** What a commit is about, and the bundle that the directory holds. */
export interface Recorded {
  readonly about: readonly string[];
  readonly files: BundleFiles;
}

/** The Git work tree that a bundle directory lies in, as far as commits of the directory need it. */
export class Repository {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Takes away what a git that was killed left here. To be called while no other one runs.
   * @returns what was done, in sentences
   */
  async mend(): Promise<readonly string[]> {
    return await mendLeftovers(existing(this.#dir), (args) => this.#git(args));
  }

  /** What is missing for commits, and for pushes if there will be any. */
  async lacks(isPushing: boolean): Promise<Problem | undefined> {
    const inside = await this.#git(['rev-parse', '--is-inside-work-tree']);
    if (inside.stdout !== 'true')
      return unready(`commit ${this.#dir}`, 'it is in no Git work tree', 'Clone the repository of the rules there');
    const author = await this.#git(['var', 'GIT_COMMITTER_IDENT']);
    if (author.exitCode !== 0)
      return unready(`commit ${this.#dir}`, lastLine(author.stderr), 'Set user.name and user.email for Git');
    if (!isPushing) return undefined;
    const upstream = await this.#git(['rev-parse', '--symbolic-full-name', '@{upstream}']);
    if (upstream.exitCode === 0) return undefined;
    if ((await this.#git(['symbolic-ref', '--quiet', 'HEAD'])).exitCode !== 0)
      return unready(`push ${this.#dir}`, 'no branch is checked out', 'Check out the branch that is to be pushed');
    return unready(`push ${this.#dir}`, lastLine(upstream.stderr), 'Push the branch once with git push --set-upstream');
  }

  /**
   * Commits the directory and nothing else.
   * @returns the first line of the message; undefined when there is nothing to commit
   * @throws Error with what Git said
   */
  async record({ about, files }: Recorded): Promise<string | undefined> {
    await this.#must(['add', '--all', '--', '.']);
    const staged = await this.#git(['diff', '--cached', '--quiet', '--', '.']);
    if (staged.exitCode === 0) return undefined;
    // It fails where there is no commit yet.
    const committed = await this.#git(['ls-tree', '--name-only', 'HEAD']);
    const message = committed.stdout === '' ? firstMessageOf(files) : messageOf(about);
    await this.#must(['commit', '--quiet', '--no-verify', '--message', message, '--', '.']);
    return message.split('\n', 1)[0];
  }

  /** @returns why it was not taken; undefined when it was */
  async push(): Promise<string | undefined> {
    const { exitCode, stderr } = await this.#git(['push', '--quiet']);
    return exitCode === 0 ? undefined : stderr;
  }

  /** @returns why not; undefined when what others pushed is known here */
  async fetch(): Promise<string | undefined> {
    const { exitCode, stderr } = await this.#git(['fetch', '--quiet']);
    return exitCode === 0 ? undefined : stderr;
  }

  /**
   * Lays what is not pushed over what others pushed. Where commits cannot be laid one by one, such as when one removes a file that
   * somebody changed, all of them become one: the directory is this process's own, so its files are what they are to be.
   */
  async rebase(recorded: Recorded): Promise<void> {
    // Here both sides are renders of one cluster: of two texts of a file, the one of this process is the newer.
    const rebased = await this.#git(['rebase', '--quiet', '--strategy-option', 'theirs', '@{upstream}']);
    if (rebased.exitCode === 0) return;
    await this.#git(['rebase', '--abort']);
    const prefix = (await this.#git(['rev-parse', '--show-prefix'])).stdout;
    await this.#must(['reset', '--quiet', '--mixed', '@{upstream}']);
    if (prefix !== '') await this.#git(['checkout', '--quiet', 'HEAD', '--', ':(top)', `:(top,exclude)${prefix}`]);
    await this.record(recorded);
  }

  /**
   * Makes the directory what others pushed last: the last good text of a Service is there, and not in what lies here since an
   * earlier time.
   */
  async follow(): Promise<void> {
    // Both fail where nothing is to be done: in an empty repository, and over commits that were never pushed.
    await this.#git(['restore', '--source=@{upstream}', '--staged', '--worktree', '--', '.']);
    await this.#git(['merge', '--quiet', '--ff-only', '@{upstream}']);
  }

  async #must(args: readonly string[]): Promise<void> {
    const { exitCode, stderr } = await this.#git(args);
    if (exitCode !== 0) throw new Error(`Cannot commit ${this.#dir}: git ${args[0]}: ${stderr}`);
  }

  async #git(args: readonly string[]): Promise<Said> {
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

/** The directory, or what it will be made in. */
function existing(dir: string): string {
  const path = resolve(dir);
  return existsSync(path) || dirname(path) === path ? path : existing(dirname(path));
}

let found: string | undefined;

/** The absolute path of git, looked up once: a directory that a file appears in later is not asked. */
function gitPath(): string {
  found ??= (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((dir) => dir.startsWith('/'))
    .map((dir) => join(dir, 'git'))
    .find((file) => isExecutable(file));
  if (found === undefined) throw new Error('Cannot commit: git is not installed');
  return realpathSync(found);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
