import { resolve } from 'node:path';
import { fileDigest, isReleaseFile, quoted, readPath, SourceFiles, sumsFile } from '@sluice/bundle';
import { type BatchObject, isRegular, readBatch, readingGit, readTreeLines, type TreeLine } from '@sluice/cli';
import { limits } from '../limits.ts';
import { findTool } from '../kernel/tools.ts';
import { execa } from 'execa';
import { checkSeal, type Extent, sealOf, unknownFile, type Tree } from './files.ts';
import { PackedText } from './packed.ts';
import { GitRepository } from './repository.ts';
import { InboxError, type Trust } from './trust.ts';

/**
 * Reads the tree of HEAD of a Git work tree, never the work files: a checkout is not atomic, a commit is.
 *
 * git runs as root on a directory whose config others may have written: `readingGit` explains why it starts no program. git refuses a work
 * tree whose top has another owner, as we do; `GitRepository` checks who can write to its contents.
 */
export class GitTree {
  readonly #repository: GitRepository | undefined;
  /** Texts by object id: an object never changes. */
  #texts = new Map<string, PackedText>();
  /** SHA-256 by object id: Git's own ids are SHA-1, and Git does not verify them on reading. */
  #digests = new Map<string, string>();
  #last: Tree | undefined;

  /**
   * @param nowMs the time of day
   * @param trust who may write to the repository; left out: not checked
   */
  constructor(nowMs: () => number, trust: Trust | undefined) {
    this.#repository = trust && new GitRepository(trust, nowMs);
  }

  /**
   * Reads the tree that HEAD has for a directory.
   * @returns the same value as before for the same tree; undefined when the directory is in no work tree
   * @param extent see `Inbox.look`
   * @throws InboxError when git cannot read it, other users can write to it, or the tree has files that no bundle has
   */
  async read(directory: string, extent: Extent): Promise<Tree | undefined> {
    const inside = await git(directory, ['rev-parse', '--absolute-git-dir', '--git-common-dir', '--show-prefix']);
    if (inside.exitCode !== 0) return notGit(inside.stderr);
    const [own = '', common = '', ...rest] = inside.stdout.toString('utf8').replace(/\n$/, '').split('\n');
    const prefix = rest.join('\n');
    this.#repository?.check({ directory, own, common: resolve(directory, common) }, extent);
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

  /** A committed release: its `SHA256SUMS` is compared with the bytes, as on a disk. */
  #seal(entries: readonly TreeEntry[], texts: SourceFiles): Tree['seal'] {
    const known = this.#digests;
    this.#digests = new Map(entries.map(({ id }) => [id, known.get(id) ?? '']));
    const text = (path: string): string | undefined => texts.get(path);
    checkSeal(new Map(entries.map(({ path, id }) => [path, known.get(id) ?? ''])), text);
    return sealOf(
      entries.map(({ path }) => path),
      text,
    );
  }

  /** Reads unknown objects, each once: a tree may have one object at many paths. */
  async #fetch(directory: string, entries: readonly TreeEntry[], isRelease: boolean): Promise<void> {
    const wanted = new Map<string, WantedObject>();
    for (const { path, id, size } of entries) {
      const keep = this.#needs(path) && !this.#texts.has(id);
      if (!keep && !(isRelease && !this.#digests.has(id))) continue;
      wanted.set(id, { id, path, size, keep: keep || wanted.get(id)?.keep === true });
    }
    for (const batch of batches([...wanted.values()])) await this.#fetchBatch(directory, batch, isRelease);
  }

  async #fetchBatch(directory: string, batch: readonly WantedObject[], isRelease: boolean): Promise<void> {
    for (const [{ id, keep }, bytes] of await readObjects(directory, batch)) {
      if (isRelease) this.#digests.set(id, fileDigest(bytes));
      if (keep) this.#texts.set(id, new PackedText(bytes, id));
    }
  }

  #needs(path: string): boolean {
    // Including files of other nodes: they tell where endpoints may be.
    return isReleaseFile(path) || readPath(path) !== undefined;
  }
}

/**
 * Reads files of a commit in a repository whose top is `directory`, without a work tree.
 * @param tree a revision with the path of a folder in it: `HEAD:rendered`
 * @param isNeeded which paths are read
 * @returns path → text
 * @throws InboxError when git cannot read it, or it has files that no bundle has
 */
export async function readCommitted(
  directory: string,
  tree: string,
  isNeeded: (path: string) => boolean,
): Promise<ReadonlyMap<string, string>> {
  const entries = (await listTree(directory, tree)).filter(({ path }) => isNeeded(path));
  const files = new Map<string, string>();
  for (const batch of batches(entries.map((entry) => ({ ...entry, keep: true }))))
    for (const [{ path }, bytes] of await readObjects(directory, batch)) files.set(path, bytes.toString('utf8'));
  return files;
}

/**
 * Reads objects with one `cat-file`, whose whole output is in memory until it is read.
 * @throws InboxError for one that is missing, or not that of its tree
 */
async function readObjects(
  directory: string,
  batch: readonly WantedObject[],
): Promise<readonly (readonly [WantedObject, Buffer])[]> {
  const input = batch.map(({ id }) => `${id}\n`).join('');
  const bytesMax = batch.reduce((sum, { size }) => sum + size + limits.gitHeaderBytesMax, 0);
  const { stdout } = await must(directory, ['cat-file', '--batch', '--buffer'], bytesMax, input);
  const objects = readBatch(stdout);
  return batch.map((one) => {
    const { value: object } = objects.next();
    if (object?.id === one.id && object.kind === 'blob' && object.bytes.length === one.size) return [one, object.bytes];
    throw new InboxError(
      `Cannot read ${one.path} from Git: object ${one.id} ${misfitOf(object, one.size)}`,
      'Check the repository with git fsck',
    );
  });
}

/** Why what git prints is not the object of a tree. @param size of that object, in bytes */
function misfitOf(found: BatchObject | undefined, size: number): string {
  if (!found) return 'is truncated';
  return found.kind === 'missing'
    ? 'is missing'
    : `is a ${found.kind} of ${found.bytes.length} bytes, not a file of ${size}`;
}

interface TreeEntry {
  readonly path: string;
  readonly id: string;
  /** In bytes, from the list of the tree: the object is not read yet. */
  readonly size: number;
}

/** An object to read. */
interface WantedObject extends TreeEntry {
  /** False where only the digest is needed. */
  readonly keep: boolean;
}

/** Batches that are read one after the other, so that git's whole output is never in memory at once. */
function* batches(wanted: readonly WantedObject[]): Generator<readonly WantedObject[]> {
  let batch: WantedObject[] = [];
  let bytes = 0;
  for (const one of wanted) {
    if (batch.length > 0 && bytes + one.size > limits.gitBatchBytesMax) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(one);
    bytes += one.size;
  }
  if (batch.length > 0) yield batch;
}

/** The files of a tree. Their sizes are checked before any is read: a small commit can name one object many times. */
async function listTree(directory: string, tree: string): Promise<readonly TreeEntry[]> {
  const { stdout } = await must(directory, ['ls-tree', '-r', '-l', '-z', '--full-tree', tree], limits.gitListBytesMax);
  const entries = readTreeLines(stdout).map(entryOf);
  const size = entries.reduce((sum, entry) => sum + entry.size, 0);
  if (entries.length > limits.bundleFilesMax) throw tooLarge(`more than ${limits.bundleFilesMax} files`);
  if (size > limits.bundleBytesMax) throw tooLarge(`more than ${limits.bundleBytesMax} bytes`);
  return entries;
}

function entryOf(line: TreeLine): TreeEntry {
  const { id, size, path } = line;
  if (!isRegular(line))
    throw new InboxError(`Cannot read ${path} from Git: not a regular file`, 'A bundle has no links and no submodules');
  if (!readPath(path) && !isReleaseFile(path)) throw unknownFile(path);
  if (size === undefined)
    throw new InboxError(
      `Cannot read ${path} from Git: object ${id} has no size`,
      'Check the repository with git fsck',
    );
  if (size > limits.fileBytesMax) throw tooLarge(`${path} is larger than ${limits.fileBytesMax} bytes`);
  return { path, id, size };
}

function tooLarge(what: string): InboxError {
  return new InboxError(
    `Cannot read the tree from Git: ${what}`,
    'See /usr/share/doc/sluice/bundle-format.md for the limits',
  );
}

interface GitOutput {
  readonly exitCode: number | undefined;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** @param bytesMax limit for the output: beyond it git is killed */
async function git(
  directory: string,
  args: readonly string[],
  bytesMax: number = limits.gitAnswerBytesMax,
  input?: string,
): Promise<GitOutput> {
  const file = findTool('git');
  if (file === undefined) return { exitCode: 127, stdout: Buffer.alloc(0), stderr: 'git is not installed' };
  const { args: all, ...how } = readingGit(directory, args);
  const result = await execa(file, all, {
    ...how,
    reject: false,
    encoding: 'buffer',
    timeout: limits.commandTimeoutMs,
    maxBuffer: bytesMax,
    ...(input === undefined ? { stdin: 'ignore' as const } : { input }),
  });
  const stderr = result.isMaxBuffer
    ? `more than ${bytesMax} bytes of output`
    : viewOf(result.stderr).toString('utf8').trim();
  return { exitCode: result.exitCode, stdout: viewOf(result.stdout), stderr };
}

/** The same bytes, not a copy. */
function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

async function must(directory: string, args: readonly string[], bytesMax: number, input?: string): Promise<GitOutput> {
  const output = await git(directory, args, bytesMax, input);
  if (output.exitCode === 0) return output;
  throw new InboxError(
    `Cannot read the Git tree: ${quoted(output.stderr)}`,
    `Check the repository: git -C ${directory} fsck`,
  );
}

function notGit(why: string): undefined {
  if (!why.includes('dubious ownership')) return undefined;
  throw new InboxError(
    `Cannot read the Git tree: ${quoted(why.split('\n')[0] ?? '')}`,
    'Change the owner of the repository to the user that runs sluiced',
  );
}
