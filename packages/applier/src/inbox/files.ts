import {
  completeFile,
  completeText,
  fileDigest,
  isReleaseFile,
  isSignatureFile,
  openingFile,
  openingSignatureFile,
  readPath,
  releaseFile,
  sumsFile,
  sumsMisfit,
  treeDigest,
  wavesFile,
} from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { OpenDirectory } from './descend.ts';
import { hasEntry, type Seen, type Stamp, walk } from './read.ts';
import { InboxError, type Trust } from './trust.ts';

/** One file as it was when it was read last. */
interface Known {
  readonly stamp: Stamp;
  readonly digest: string;
  /** Only of files that this node may need. */
  readonly text: string | undefined;
}

/** What only a release has, as it lies there. `sums` fits the files; nothing else was looked at. */
export interface Seal {
  readonly sums: string;
  readonly release: string | undefined;
  /** File → text. */
  readonly signatures: ReadonlyMap<string, string>;
  /** `waves.yaml`, where the release goes out in waves. */
  readonly waves?: string | undefined;
  /** `waves-open.yaml`, which is not among the sums, and its signature. */
  readonly opening?: string | undefined;
  readonly openingSignature?: string | undefined;
}

/** A tree that is complete, by its own word. */
export interface Tree {
  readonly files: ReadonlyMap<string, string>;
  /** Equal for equal trees. */
  readonly digest: string;
  /** Of a release. */
  readonly seal?: Seal;
}

/**
 * A bundle in plain files: a release, or what `sluice render` wrote.
 *
 * Each file is copied into the memory of this process and hashed there, and only that copy is used: nobody else can write to it, a
 * full disk does not keep it out, and no crash leaves a part of it. What was copied is remembered by device, inode, size, mtime and
 * ctime, so an unchanged tree costs one stat per file, and one changed file is one file read.
 */
export class PlainFiles {
  #known = new Map<string, Known>();
  #last: Tree | undefined;
  readonly #node: string;
  readonly #nowMs: () => number;
  readonly #trust: Trust | undefined;

  /** @param nowMs the time of day, to tell files that may change again within the same tick of the file system's clock */
  constructor(node: string, nowMs: () => number, trust: Trust | undefined) {
    this.#node = node;
    this.#nowMs = nowMs;
    this.#trust = trust;
  }

  /** True when the directory has one of the two files that say what is complete. */
  static claims(directory: OpenDirectory): boolean {
    return hasEntry(directory, sumsFile) || hasEntry(directory, completeFile);
  }

  /**
   * Reads what changed and checks that the tree is what its seal says.
   * @returns the same value as before when nothing changed
   * @throws InboxError when it is not complete or holds what no bundle has
   */
  read(directory: OpenDirectory): Tree {
    const changed = this.#update(directory);
    if (!changed && this.#last) return this.#last;
    const digests = new Map([...this.#known].map(([path, { digest }]) => [path, digest]));
    checkSeal(digests, (path) => this.#known.get(path)?.text);
    const files = new Map<string, string>();
    for (const [path, { text }] of this.#known) if (text !== undefined && readPath(path)) files.set(path, text);
    const seal = sealOf([...this.#known.keys()], (path) => this.#known.get(path)?.text);
    this.#last = { files, digest: treeDigest(digests), ...(seal ? { seal } : {}) };
    return this.#last;
  }

  #update(directory: OpenDirectory): boolean {
    const now = this.#nowMs();
    const next = new Map<string, Known>();
    let changed = false;
    walk(directory, this.#trust, (file) => {
      const known = this.#known.get(file.path);
      if (known?.stamp === file.stamp) return void next.set(file.path, known);
      const copy = this.#copy(file);
      // Within one tick a second change leaves no trace in the stamp: such a file is read again at the next scan.
      const racy = now - file.ctimeMs < limits.racyMs;
      next.set(file.path, { ...copy, stamp: racy ? '' : copy.stamp });
      changed ||= known?.digest !== copy.digest;
    });
    changed ||= next.size !== this.#known.size;
    this.#known = next;
    return changed;
  }

  #copy(file: Seen): Known {
    const { path } = file;
    const kind = readPath(path);
    const seal = path === completeFile || isReleaseFile(path);
    if (!kind && !seal && !path.startsWith('.sluice-')) throw stranger(path);
    const { bytes, stamp } = file.read();
    const wanted = seal || (kind && (kind.kind !== 'node' || kind.node === this.#node));
    return { stamp, digest: fileDigest(bytes), text: wanted ? bytes.toString('utf8') : undefined };
  }
}

/** What only a release has; undefined for other bundles. To be called when `checkSeal` has passed. */
export function sealOf(paths: readonly string[], text: (path: string) => string | undefined): Seal | undefined {
  const sums = text(sumsFile);
  if (sums === undefined) return undefined;
  const signatures = paths.filter(isSignatureFile).map((path) => [path, text(path) ?? ''] as const);
  return {
    sums,
    release: text(releaseFile),
    signatures: new Map(signatures),
    waves: text(wavesFile),
    opening: text(openingFile),
    openingSignature: text(openingSignatureFile),
  };
}

export function stranger(path: string): InboxError {
  return new InboxError(
    `Cannot read the bundle: it has ${JSON.stringify(path)}, which the format does not know`,
    'Render into an empty directory, or use a sluiced that knows this format',
  );
}

/**
 * packages/bundle/README.md, "When is a directory a bundle?"
 * @throws InboxError when the files are not what the seal says
 */
export function checkSeal(digests: ReadonlyMap<string, string>, text: (path: string) => string | undefined): void {
  const sums = text(sumsFile);
  if (sums !== undefined) {
    const misfit = sumsMisfit(sums, digests);
    if (misfit === undefined) return;
    throw incomplete(`SHA256SUMS does not fit the files that are there: ${misfit}`);
  }
  const complete = text(completeFile);
  if (complete === undefined) throw incomplete('it has neither SHA256SUMS nor .sluice-complete');
  if (complete !== completeText(digests)) throw incomplete('.sluice-complete does not fit the files that are there');
}

function incomplete(why: string): InboxError {
  const hint =
    'Wait until it is written, or render it again: an interrupted `sluice render` is repaired by the next one';
  return new InboxError(`Cannot use the directory as a bundle: ${why}`, hint);
}
