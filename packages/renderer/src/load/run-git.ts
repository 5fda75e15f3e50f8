import { execFileSync } from 'node:child_process';
import { readingGit } from '@sluice/cli';

/** Where Debian and every other distribution has it; PATH is not asked. */
const git = '/usr/bin/git';

/** Bounds of one call. */
interface GitBounds {
  readonly outputBytesMax: number;
  readonly timeoutMs: number;
}

/**
 * Reads objects of the repository that a directory is in. Nothing runs that its config or its attributes name: it may be a clone of
 * somebody else's, made to look at a proposal.
 * @throws Error with what git said in `stderr`
 */
export function runGit(directory: string, args: readonly string[], bounds: GitBounds, input = ''): Buffer {
  try {
    return start(directory, args, bounds, input, []);
  } catch (error) {
    const { stderr } = error as { readonly stderr?: Buffer };
    // Such as in a container, where the checkout belongs to another user: the user's own config may say that this is meant.
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

/** The repositories of others that the config of this machine and user trusts; that of a repository is not asked. */
function safeDirectories(): readonly string[] {
  return ['--system', '--global'].flatMap((whose) => {
    try {
      const said = execFileSync(git, ['-C', '/', 'config', whose, '--get-all', 'safe.directory'], {
        encoding: 'utf8',
        timeout: 10_000,
        stdio: ['ignore', 'pipe', 'ignore'],
      });
      return said.split('\n').filter(Boolean);
    } catch {
      return [];
    }
  });
}

/** What git said, in one line. */
export function whyGit(error: unknown): string {
  const stderr = (error as { readonly stderr?: Buffer }).stderr?.toString('utf8').trim().split('\n')[0];
  return stderr || (error instanceof Error ? error.message : String(error));
}
