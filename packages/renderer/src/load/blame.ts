import { execFileSync } from 'node:child_process';
import { dirname, basename } from 'node:path';

/** Who last changed a line. */
export interface Blame {
  readonly commit: string;
  readonly author: string;
  readonly summary: string;
}

/** Where Debian and every other distribution has it; PATH is not asked. */
const git = '/usr/bin/git';

/** Asks Git for the commit of a line. @returns nothing where the file is not in a repository, or not committed yet */
export function blameLine(file: string, line: number): Blame | undefined {
  let output: string;
  try {
    const args = ['-C', dirname(file), 'blame', '--porcelain', '-L', `${line},${line}`, '--', basename(file)];
    output = execFileSync(git, args, { encoding: 'utf8', timeout: 30_000, stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return undefined;
  }
  const commit = output.slice(0, 40);
  const field = (name: string): string => new RegExp(`^${name} (.*)$`, 'm').exec(output)?.[1] ?? '';
  return /^0+$/.test(commit) ? undefined : { commit, author: field('author'), summary: field('summary') };
}
