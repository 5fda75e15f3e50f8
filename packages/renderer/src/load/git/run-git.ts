import { execFileSync } from 'node:child_process';
import { readingGit } from '@sluice/cli';

/** The path in every distribution; PATH is not used. */
const git = '/usr/bin/git';

/** Bounds of one call. */
interface GitBounds {
  readonly outputBytesMax: number;
  readonly timeoutMs: number;
}

/**
 * Runs a git command that reads objects of the repository of a directory. Programs in its config and attributes do not run: it may be an
 * untrusted clone.
 * @throws Error with git's `stderr`
 */
export function runGit(directory: string, args: readonly string[], bounds: GitBounds, input = ''): Buffer {
  try {
    return start(directory, args, bounds, input, []);
  } catch (error) {
    const { stderr } = error as { readonly stderr?: Buffer };
    // In a container the checkout may belong to another user: the user's own config may allow that.
    if (!stderr?.includes('dubious ownership')) throw error;
    const trusted = safeDirectories();
    if (trusted.length === 0) throw error;
    return start(directory, args, bounds, input, trusted);
  }
}

function start(
  directory: string,
  args: readonly string[],
  { outputBytesMax, timeoutMs }: GitBounds,
  input: string,
  trusted: readonly string[],
): Buffer {
  const call = readingGit(directory, args, trusted);
  return execFileSync(git, call.args, {
    env: call.env,
    input,
    maxBuffer: outputBytesMax,
    timeout: timeoutMs,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

/** The repositories of other users that the system or user config trusts; the repository's own config is not used. */
function safeDirectories(): readonly string[] {
  return ['--system', '--global'].flatMap((whose) => {
    try {
      const output = execFileSync(git, ['-C', '/', 'config', whose, '--get-all', 'safe.directory'], {
        encoding: 'utf8',
        timeout: 10_000,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      return output.split('\n').filter(Boolean);
    } catch {
      return [];
    }
  });
}

/** The message of git, in one line. */
export function whyGit(error: unknown): string {
  const stderr = (error as { readonly stderr?: Buffer }).stderr?.toString('utf8').trim().split('\n')[0];
  if (stderr?.endsWith('Needed a single revision')) return 'there is no such revision or path';
  return stderr?.replace(/^fatal: /, '') || (error instanceof Error ? error.message : String(error));
}
