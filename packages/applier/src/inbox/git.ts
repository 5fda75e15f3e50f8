import { fileDigest, isReleaseFile, readPath, SourceFiles, sumsFile } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { findTool } from '../kernel/tools.ts';
import { execa } from 'execa';
import { toolEnvironment } from '../kernel/run.ts';
import { checkSeal, sealOf, stranger, type Tree } from './files.ts';
import { PackedText } from './packed.ts';
import { InboxError } from './trust.ts';

/**
 * The tree of HEAD of a Git work tree, never the work files: a checkout is not atomic, a commit is.
 *
 * git runs as root on a directory whose config others may have written, so it must start nothing that this config names. The three
 * commands used here (rev-parse, ls-tree, cat-file) read objects: they run no hook, no filter, no fsmonitor and no pager. One way is
 * left: an object that a partial clone lacks is fetched, with the remote's `uploadpack` or `core.sshCommand`. git 2.44 knows
 * GIT_NO_LAZY_FETCH; before it, forbidding every protocol stops the fetch before anything is started. No config of the machine or a
 * user is read, so no `safe.directory` opens a repository that belongs to somebody else: git refuses it, and so do we.
 */
const gitEnvironment = {
  ...toolEnvironment,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_NO_LAZY_FETCH: '1',
  GIT_ALLOW_PROTOCOL: 'none',
  GIT_OPTIONAL_LOCKS: '0',
  GIT_TERMINAL_PROMPT: '0',
  HOME: '/nonexistent',
};

/** Wins over what the repository's config says. */
const gitOptions = ['core.fsmonitor=false', 'core.hooksPath=/dev/null', 'safe.bareRepository=explicit'].flatMap(
  (setting) => ['-c', setting],
);

export class GitTree {
  readonly #node: string;
  /** Texts by object id: an object never changes. */
  #texts = new Map<string, PackedText>();
  /** SHA-256 by object id: Git's own ids are SHA-1, and it is not asked whether they are right. */
  #digests = new Map<string, string>();
  #last: Tree | undefined;

  constructor(node: string) {
    this.#node = node;
  }

  /**
   * The tree that HEAD has for a directory.
   * @returns the same value as before when HEAD's tree is the same; undefined when the directory is in no work tree
   * @throws InboxError when git cannot read it or the tree holds what no bundle has
   */
  async read(directory: string): Promise<Tree | undefined> {
    const inside = await git(directory, ['rev-parse', '--show-prefix']);
    if (inside.exitCode !== 0) return notGit(inside.stderr);
    const prefix = inside.stdout.toString('utf8').replace(/\n$/, '');
    const head = await git(directory, ['rev-parse', '--verify', '--quiet', `HEAD:${prefix.replace(/\/$/, '')}`]);
    if (head.exitCode !== 0) return undefined;
    const digest = head.stdout.toString('utf8').trim();
    if (digest === this.#last?.digest) return this.#last;
    const entries = await listTree(directory, digest);
    const isRelease = entries.some(({ path }) => path === sumsFile);
    await this.#fetch(directory, entries, isRelease);
    const files = new Map<string, PackedText>();
    const texts = new Map<string, PackedText>();
    for (const { path, id } of entries) {
      const text = this.#texts.get(id);
      if (text === undefined) continue;
      files.set(path, text);
      texts.set(id, text);
    }
    this.#texts = texts;
    const seal = isRelease ? this.#seal(entries, new SourceFiles(files)) : undefined;
    this.#last = {
      files: new SourceFiles(new Map([...files].filter(([path]) => !isReleaseFile(path)))),
      digest,
      ...(seal ? { seal } : {}),
    };
    return this.#last;
  }

  /** A release that was committed: its `SHA256SUMS` is held against the bytes, as on a disk. */
  #seal(entries: readonly Entry[], texts: SourceFiles): Tree['seal'] {
    const known = this.#digests;
    this.#digests = new Map(entries.map(({ id }) => [id, known.get(id) ?? '']));
    const text = (path: string): string | undefined => texts.get(path);
    checkSeal(new Map(entries.map(({ path, id }) => [path, known.get(id) ?? ''])), text);
    return sealOf(
      entries.map(({ path }) => path),
      text,
    );
  }

  /** Reads the objects that are not known yet, all with one `cat-file`. */
  async #fetch(directory: string, entries: readonly Entry[], isRelease: boolean): Promise<void> {
    const wanted = entries.filter(
      ({ path, id }) => (this.#needs(path) && !this.#texts.has(id)) || (isRelease && !this.#digests.has(id)),
    );
    if (wanted.length === 0) return;
    const input = wanted.map(({ id }) => `${id}\n`).join('');
    const { stdout } = await must(directory, ['cat-file', '--batch', '--buffer'], input);
    let at = 0;
    for (const { path, id } of wanted) {
      const end = stdout.indexOf(0x0a, at);
      const [name, kind, size] = stdout.toString('latin1', at, end).split(' ');
      const length = Number(size);
      if (name !== id || kind !== 'blob' || !(length <= limits.fileBytesMax)) {
        throw new InboxError(
          `Cannot read ${path} from Git: object ${id} is ${kind} of ${size} bytes`,
          'Check the repository with git fsck',
        );
      }
      const bytes = stdout.subarray(end + 1, end + 1 + length);
      if (isRelease) this.#digests.set(id, fileDigest(bytes));
      if (this.#needs(path)) this.#texts.set(id, new PackedText(bytes, id));
      at = end + 1 + length + 1;
    }
  }

  #needs(path: string): boolean {
    const kind = readPath(path);
    if (isReleaseFile(path)) return true;
    return kind !== undefined && (kind.kind !== 'node' || kind.node === this.#node);
  }
}

interface Entry {
  readonly path: string;
  readonly id: string;
}

async function listTree(directory: string, tree: string): Promise<readonly Entry[]> {
  const { stdout } = await must(directory, ['ls-tree', '-r', '-z', '--full-tree', tree]);
  const entries = stdout
    .toString('utf8')
    .split('\0')
    .filter((line) => line !== '');
  if (entries.length > limits.bundleFilesMax) {
    throw new InboxError(
      `Cannot read the tree: more than ${limits.bundleFilesMax} files`,
      'packages/bundle/README.md has the limits',
    );
  }
  return entries.map((line) => {
    const [, mode, id, path] = /^(\d+) \S+ ([0-9a-f]+)\t(.*)$/s.exec(line) ?? [];
    if (mode === undefined || id === undefined || path === undefined || !mode.startsWith('100')) {
      throw new InboxError(
        `Cannot read ${path ?? line} from Git: it is no regular file`,
        'A bundle has no links and no submodules',
      );
    }
    if (!readPath(path) && !isReleaseFile(path)) throw stranger(path);
    return { path, id };
  });
}

interface Said {
  readonly exitCode: number | undefined;
  readonly stdout: Buffer;
  readonly stderr: string;
}

async function git(directory: string, args: readonly string[], input?: string): Promise<Said> {
  const file = findTool('git');
  if (file === undefined) return { exitCode: 127, stdout: Buffer.alloc(0), stderr: 'git is not installed' };
  const result = await execa(file, ['--no-pager', ...gitOptions, '-C', directory, ...args], {
    env: gitEnvironment,
    extendEnv: false,
    reject: false,
    encoding: 'buffer',
    timeout: limits.commandTimeoutMs,
    maxBuffer: limits.bundleBytesMax * 2,
    ...(input === undefined ? { stdin: 'ignore' as const } : { input }),
  });
  const { exitCode } = result;
  return { exitCode, stdout: Buffer.from(result.stdout), stderr: Buffer.from(result.stderr).toString('utf8').trim() };
}

async function must(directory: string, args: readonly string[], input?: string): Promise<Said> {
  const said = await git(directory, args, input);
  if (said.exitCode === 0) return said;
  throw new InboxError(`Cannot read the Git tree: ${said.stderr}`, `Check the repository: git -C ${directory} fsck`);
}

function notGit(why: string): undefined {
  if (!why.includes('dubious ownership')) return undefined;
  throw new InboxError(
    `Cannot read the Git tree: ${why.split('\n')[0]}`,
    'Let the user that runs sluiced own the repository',
  );
}
