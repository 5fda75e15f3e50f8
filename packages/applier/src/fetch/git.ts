import { existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isReleaseFile } from '@sluice/bundle';
import { printable, type RemoteAccess, remoteGit } from '@sluice/cli';
import { execa } from 'execa';
import { readCommitted } from '../inbox/git.ts';
import { InboxError } from '../inbox/trust.ts';
import { findTool } from '../kernel/tools.ts';
import { fetchLimits } from './limits.ts';
import { type FoundRelease, invalidSource, type Source, SourceFailure, type SourceFiles } from './source.ts';

interface GitParts {
  readonly url: string;
  readonly branch: string;
  /** The folder of the release, below the top of the repository; empty: the top. */
  readonly path: string;
  /** The repository of this source: a cache, which may be removed at any time. */
  readonly directory: string;
  /** Reads credentials when they are needed. */
  readonly access: () => Promise<RemoteAccess>;
  readonly bytesMax: number;
  /** Ends what runs. */
  readonly signal: AbortSignal;
}

/** A release in a Git repository. The newest commit of a branch is fetched without its history. */
export class GitSource implements Source {
  readonly name: string;
  readonly #parts: GitParts;
  #bytes = 0;

  constructor(parts: GitParts) {
    this.name = `${parts.url} ${parts.branch}`;
    this.#parts = parts;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async look(): Promise<string> {
    const { url, branch, path } = this.#parts;
    this.#prepare();
    const listed = await this.#git(['ls-remote', '--exit-code', '--', url, `refs/heads/${branch}`], [0, 2]);
    const [, commit] = /^([0-9a-f]{40,64})\t/.exec(listed) ?? [];
    if (commit !== undefined) return `${commit} ${path}`;
    throw new SourceFailure(
      'SOURCE_INVALID',
      `Cannot read ${this.name}: there is no such branch`,
      'Check `source.git.branch` in sluiced.yaml',
    );
  }

  async open(check: (top: SourceFiles) => Promise<string>): Promise<FoundRelease> {
    const { url, branch, directory, path } = this.#parts;
    const before = packsOf(directory).bytes;
    const refs = `+refs/heads/${branch}:refs/heads/source`;
    const read = (isNeeded: (path: string) => boolean): Promise<SourceFiles> =>
      this.#whole(() => readCommitted(directory, `refs/heads/source:${path}`, isNeeded));
    await this.#whole(() =>
      this.#git(['fetch', '--quiet', '--depth=1', '--no-tags', '--no-write-fetch-head', '--', url, refs]),
    );
    this.#bytes += Math.max(packsOf(directory).bytes - before, 0);
    const top = await read(isReleaseFile);
    await check(top);
    return {
      top,
      async *read(wanted) {
        yield await read((one) => wanted.has(one));
      },
    };
  }

  /** The remote answered just now: after a failure the cache may be damaged, and a new one costs one whole fetch. */
  async #whole<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      rmSync(this.#parts.directory, { recursive: true, force: true });
      throw error instanceof InboxError ? invalidSource(this.name, error.message) : error;
    }
  }

  /** A repository within its bounds, without what a killed git left: no other process uses it. */
  #prepare(): void {
    const { directory, bytesMax } = this.#parts;
    const { count, bytes } = packsOf(directory);
    if (count > fetchLimits.gitPacksMax || bytes > fetchLimits.gitSizeFactor * bytesMax)
      rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    for (const path of readdirSync(directory, { recursive: true, encoding: 'utf8' }))
      if (/\.lock$|\/tmp_[^/]*$/.test(path)) rmSync(join(directory, path), { force: true });
  }

  /** @returns the output @throws SourceFailure unless the exit code is in `good` */
  async #git(args: readonly string[], good: readonly number[] = [0]): Promise<string> {
    const access = await this.#parts.access();
    // Made last of all by `init`. Where intervals are short, one process less counts.
    const isMade = existsSync(join(this.#parts.directory, '.git/objects/info'));
    if (!isMade) await this.#run(['init', '--quiet', '--template=', '.'], [0], access);
    return this.#run(args, good, access);
  }

  async #run(args: readonly string[], good: readonly number[], access: RemoteAccess): Promise<string> {
    const { directory, bytesMax, signal } = this.#parts;
    if (signal.aborted) throw failureOf(this.name, tooLong);
    const [git, prlimit] = [findTool('git'), findTool('prlimit')];
    if (git === undefined || prlimit === undefined)
      throw new SourceFailure(
        'SOURCE_UNREACHABLE',
        `Cannot read ${this.name}: git or prlimit is not installed`,
        'Install git and util-linux',
      );
    const call = remoteGit(directory, args, access);
    // No file of a pack may be larger: the kernel ends what writes it.
    const child = execa(prlimit, [`--fsize=${bytesMax}`, '--core=0', git, ...call.args], {
      env: call.env,
      extendEnv: call.extendEnv,
      reject: false,
      stdin: 'ignore',
      // A group of its own: the processes of a transport outlive git, and wait for the network.
      detached: true,
      maxBuffer: fetchLimits.gitErrorBytesMax,
    });
    const end = (): void => endGroup(child.pid);
    signal.addEventListener('abort', end);
    const result = await child.finally(() => signal.removeEventListener('abort', end));
    if (result.exitCode !== undefined && good.includes(result.exitCode)) return result.stdout;
    throw failureOf(this.name, signal.aborted ? tooLong : reasonIn(result.stderr));
  }
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
}

function packsOf(directory: string): { readonly count: number; readonly bytes: number } {
  const folder = join(directory, '.git/objects/pack');
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) return { count: 0, bytes: 0 };
  const packs = readdirSync(folder).filter((name) => name.endsWith('.pack'));
  return { count: packs.length, bytes: packs.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0) };
}

/** The lines in which git says what failed, not those that its server printed. */
function reasonIn(stderr: unknown): string {
  const lines = String(stderr)
    .split('\n')
    .filter((line) => /^(?:fatal|error|ssh|Host key|.*: Permission denied)/.test(line));
  return (
    printable(lines.slice(0, 3).join('; ').slice(0, fetchLimits.messageCharactersMax)) || 'git failed without a reason'
  );
}

const tooLong = 'it took too long';

function failureOf(name: string, why: string): SourceFailure {
  const isAccess = /Authentication failed|Permission denied|could not read Username|error: 40[13]\b|Host key/i.test(
    why,
  );
  const isInvalid =
    /fsck|bad object|pack|invalid|corrupt|unexpected disconnect/i.test(why) && !/certificate|resolve/i.test(why);
  const code = isAccess ? 'SOURCE_ACCESS' : isInvalid ? 'SOURCE_INVALID' : 'SOURCE_UNREACHABLE';
  return new SourceFailure(code, `Cannot read ${name}: ${why}`, hints[code]);
}

const hints = {
  SOURCE_ACCESS: 'Check `source.credentials`, its account, and for ssh `source.git.knownHosts` in sluiced.yaml',
  SOURCE_INVALID: 'Check the repository with git fsck, and `source.bytesMax` in sluiced.yaml',
  SOURCE_UNREACHABLE: 'Check the URL, the network, `source.proxy` and `source.caFile` in sluiced.yaml',
} as const;
