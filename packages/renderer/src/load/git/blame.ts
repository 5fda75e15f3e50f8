import { readFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { diffLines } from 'diff';
import { runGit } from './run-git.ts';

/** The last commit of a line. */
export interface Blame {
  readonly commit: string;
  readonly author: string;
  readonly summary: string;
}

const bounds = { outputBytesMax: 64 * 1024 * 1024, timeoutMs: 30_000 } as const;

/**
 * Finds the last commit of a line. Reads HEAD and not the work tree: for a file there, git runs filters from the repository's config.
 * @param line of the current file, from 1
 * @returns undefined when the file is not in a repository, or the line is not committed yet
 */
export function blameLine(file: string, line: number): Blame | undefined {
  const [directory, name] = [dirname(file), basename(file)];
  try {
    const committed = runGit(directory, ['cat-file', 'blob', `HEAD:./${name}`], bounds).toString('utf8');
    const own = committedLine(committed, readFileSync(file, 'utf8'), line);
    if (own === undefined) return undefined;
    const args = ['blame', '--porcelain', '--no-textconv', '-L', `${own},${own}`, 'HEAD', '--', name];
    const output = runGit(directory, args, bounds).toString('utf8');
    const field = (key: string): string => new RegExp(`^${key} (.*)$`, 'm').exec(output)?.[1] ?? '';
    return { commit: output.slice(0, 40), author: field('author'), summary: field('summary') };
  } catch {
    return undefined;
  }
}

/** The number of a line in the committed text; undefined for a new line. */
function committedLine(before: string, now: string, line: number): number | undefined {
  let [old, own] = [0, 0];
  for (const { added, removed, count = 0 } of diffLines(before, now)) {
    if (!removed && line <= own + count) return added ? undefined : old + line - own;
    if (!added) old += count;
    if (!removed) own += count;
  }
  return undefined;
}
