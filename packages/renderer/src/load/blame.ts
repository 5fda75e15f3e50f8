import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { runGit } from './run-git.ts';

/** Who last changed a line. */
export interface Blame {
  readonly commit: string;
  readonly author: string;
  readonly summary: string;
}

const bounds = { outputBytesMax: 64 * 1024 * 1024, timeoutMs: 30_000 } as const;

/**
 * Asks Git for the commit of a line. Of HEAD, not of the work tree: to read a file there git runs the filters that the repository's
 * config names.
 * @returns nothing where the file is not in a repository, or is not what is committed
 */
export function blameLine(file: string, line: number): Blame | undefined {
  const [directory, name] = [dirname(file), basename(file)];
  try {
    const committed = runGit(directory, ['cat-file', 'blob', `HEAD:./${name}`], bounds);
    if (!committed.equals(readFileSync(file))) return undefined;
    const args = ['blame', '--porcelain', '--no-textconv', '-L', `${line},${line}`, 'HEAD', '--', name];
    const output = runGit(directory, args, bounds).toString('utf8');
    const field = (key: string): string => new RegExp(`^${key} (.*)$`, 'm').exec(output)?.[1] ?? '';
    return { commit: output.slice(0, 40), author: field('author'), summary: field('summary') };
  } catch {
    return undefined;
  }
}
