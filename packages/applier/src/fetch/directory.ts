import { fileDigest, isReleaseFile } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { compareText } from '@sluice/netfilter';
import { InboxError } from '../inbox/trust.ts';
import { descend } from '../inbox/descend.ts';
import { walk } from '../inbox/walk.ts';
import { type FoundRelease, type Source, SourceFailure, type SourceFiles } from './source.ts';

/** A release in a directory that others write: a stick, a shared file system. Who wrote it does not matter: its signatures decide. */
export class DirectorySource implements Source {
  readonly name: string;
  readonly bytes = 0;

  constructor(path: string) {
    this.name = path;
  }

  /** The files that tell releases apart: the sums of all others, and what may be added to it later. */
  async look(): Promise<string> {
    const own = [...this.#files(isReleaseFile)].map(([path, text]) => `${path} ${fileDigest(text)}\n`);
    return fileDigest(own.toSorted(compareText).join(''));
  }

  async open(check: (top: SourceFiles) => Promise<string>): Promise<FoundRelease> {
    const top = this.#files(isReleaseFile);
    await check(top);
    return { top, read: (wanted) => [this.#files((path) => wanted.has(path))] };
  }

  #files(isNeeded: (path: string) => boolean): SourceFiles {
    try {
      using top = descend(this.name, undefined);
      const files = new Map<string, string>();
      walk(top, undefined, (file) => {
        if (isNeeded(file.path)) files.set(file.path, file.read().bytes.toString('utf8'));
      });
      return files;
    } catch (error) {
      if (!(error instanceof InboxError) && (error as NodeJS.ErrnoException).code === undefined) throw error;
      const hint = 'Check that it is mounted, and readable for user sluice-fetch';
      throw new SourceFailure('SOURCE_UNREACHABLE', `Cannot read ${this.name}: ${reasonOf(error)}`, hint);
    }
  }
}
