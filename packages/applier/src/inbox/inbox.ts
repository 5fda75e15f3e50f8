import { realpathSync, statSync } from 'node:fs';
import { completeFile, type Problem } from '@sluice/bundle';
import { PlainFiles, type Tree } from './files.ts';
import { GitTree } from './git.ts';
import { InboxError } from './read.ts';

/** What a look at the bundle directory found. */
export type Arrival =
  | { readonly kind: 'bundle'; readonly tree: Tree }
  /** The directory is not there. That changes nothing: removal is not a command. */
  | { readonly kind: 'absent' }
  | { readonly kind: 'refused'; readonly problems: readonly Problem[] };

/**
 * Finds complete bundles in one directory, which may be a link that is swapped, and reads each file as rarely as possible.
 * What a directory is, is decided in this order: a Git work tree of its own, a release, what `sluice render` wrote, a folder of
 * a Git work tree. A directory that once was what `sluice render` writes is never read as part of a larger work tree: while a
 * writer is busy its mark is missing, and HEAD is not what was meant.
 */
export class Inbox {
  readonly #directory: string;
  readonly #plain: PlainFiles;
  readonly #git: GitTree;
  #wasRendered = false;

  constructor(directory: string, node: string, nowMs: () => number) {
    this.#directory = directory;
    this.#plain = new PlainFiles(node, nowMs);
    this.#git = new GitTree(node);
  }

  /** Looks at the directory. `tree` is the same value as at the last look when nothing changed. */
  async look(): Promise<Arrival> {
    try {
      const target = realpathSync(this.#directory);
      if (!statSync(target).isDirectory())
        throw new InboxError(`Cannot read ${this.#directory}: it is no directory`, 'Name the bundle directory');
      return { kind: 'bundle', tree: await this.#read(target) };
    } catch (error) {
      if (error instanceof InboxError) return { kind: 'refused', problems: [problemOf(error)] };
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' && !isThere(this.#directory)) return { kind: 'absent' };
      const hint =
        code === 'ENOENT' || code === 'ELOOP'
          ? 'It changed while it was read: it is read again'
          : 'Check its permissions';
      return {
        kind: 'refused',
        problems: [problemOf(new InboxError(`Cannot read ${this.#directory}: ${message}`, hint))],
      };
    }
  }

  async #read(target: string): Promise<Tree> {
    if (isThere(`${target}/.git`)) {
      const tree = await this.#git.read(target);
      if (tree) return tree;
      throw new InboxError('Cannot use the Git work tree as a bundle: it has no commit', 'Commit the bundle');
    }
    this.#wasRendered ||= isThere(`${target}/${completeFile}`);
    if (this.#wasRendered || PlainFiles.claims(target)) return this.#plain.read(target);
    return (await this.#git.read(target)) ?? this.#plain.read(target);
  }
}

function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function problemOf(error: InboxError): Problem {
  return { code: 'BUNDLE_INCOMPLETE', level: 'error', message: error.message, hint: error.hint };
}
