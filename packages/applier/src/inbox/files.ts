import {
  type BundleFiles,
  clusterFile,
  completeFile,
  completeText,
  fileDigest,
  isReleaseFile,
  isSignatureFile,
  Layered,
  openingFile,
  openingSignatureFile,
  readPath,
  releaseFile,
  SourceFiles,
  sumsFile,
  sumsMisfit,
  TextsDigest,
  type TextSource,
  wavesFile,
} from '@sluice/bundle';
import type { OpenDirectory } from './descend.ts';
import {
  changedCopies,
  copiesOf,
  type Copy,
  type Known,
  outsideOf,
  type Part,
  partOf,
  releaseSumsOf,
} from './parts.ts';
import { PackedText } from './packed.ts';
import { hasEntry, type Seen, settledStamp } from './read.ts';
import { InboxError, type Trust } from './trust.ts';
import { type Folder, walkAgain } from './walk.ts';

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
  readonly files: BundleFiles;
  /** Equal for equal trees. */
  readonly digest: string;
  /** Of a release. */
  readonly seal?: Seal;
}

/** How much of a directory is looked at: all of it, or what cannot be known from its folders to be unchanged. */
export type Extent = 'whole' | 'changed';

/** What was found last, and what its seal covers. */
interface Last extends Held {
  readonly outside: string;
  readonly part: Part;
}

/** A tree, and its files as they lie there: those of the format, and all others. */
interface Held {
  readonly tree: Tree;
  readonly files: Layered<TextSource>;
  readonly others: Layered<TextSource>;
}

/**
 * A bundle in plain files: a release, or what `sluice render` wrote.
 *
 * Each file is copied into the memory of this process and hashed there, and only that copy is used: nobody else can write to it, a
 * full disk does not keep it out, and no crash leaves a part of it. What was copied is remembered by device, inode, size, mtime and
 * ctime, so an unchanged tree costs one stat per file, and one changed file is one file read.
 *
 * After an event even that is too much. Writers put files in place by renaming, which changes the folder; so only folders that
 * changed are listed, and then the seal proves that nothing was missed: it covers every file, those that were not asked too. A file
 * that was written in place, against the seal, is found by the next whole look.
 */
export class PlainFiles {
  #top: Folder<Known> | undefined;
  #part: Part | undefined;
  readonly #digest = new TextsDigest();
  #last: Last | undefined;
  /** What a whole look refused, such as a file that others may write, only a whole look can find mended. */
  #passedWhole = false;
  readonly #nowMs: () => number;
  readonly #trust: Trust | undefined;

  /** @param nowMs the time of day, to tell files that may change again within the same tick of the file system's clock */
  constructor(nowMs: () => number, trust: Trust | undefined) {
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
  read(directory: OpenDirectory, extent: Extent): Tree {
    if (extent === 'changed' && this.#passedWhole) {
      try {
        return this.#take(directory, 'changed');
      } catch {
        // A writer that is not done, or a file that was written in place: the whole directory tells which.
      }
    }
    this.#passedWhole = false;
    const tree = this.#take(directory, 'whole');
    this.#passedWhole = true;
    return tree;
  }

  #take(directory: OpenDirectory, extent: Extent): Tree {
    const nowMs = this.#nowMs();
    const visit = (file: Seen, before: Known | undefined): Known =>
      before?.stamp === file.stamp ? before : this.#copy(file, nowMs, before);
    const manner = { trust: this.#trust, nowMs, whole: extent === 'whole', visit };
    this.#top = walkAgain(directory, manner, this.#top);
    this.#part = partOf(this.#top, this.#part);
    const outside = outsideOf(this.#part);
    const last = this.#last;
    const digest = last?.part === this.#part ? last.tree.digest : this.#digest.of(this.#part.sums);
    const isSame = last?.tree.digest === digest && last.outside === outside;
    const held = isSame ? last : treeOf(this.#part, digest, last);
    // Of an equal tree too: folders that were young when they were read have other stamps by now, and one walk is all there is to keep.
    this.#last = { ...held, outside, part: this.#part };
    return held.tree;
  }

  #copy(file: Seen, nowMs: number, before: Known | undefined): Known {
    const { path } = file;
    const kind = readPath(path);
    const seal = path === completeFile || isReleaseFile(path);
    if (!kind && !seal && !path.startsWith('.sluice-')) throw stranger(path);
    const { bytes, stats } = file.read();
    const digest = fileDigest(bytes);
    const stamp = settledStamp(stats, nowMs);
    if (before?.copy.digest === digest) return { stamp, copy: before.copy };
    // Those of other nodes, too: they say where endpoints may be.
    const source = seal || kind ? new PackedText(bytes, digest) : undefined;
    return { stamp, copy: { path, digest, source, isRule: kind !== undefined } };
  }
}

/**
 * @param digest of its lines
 * @param last what was found before; a file that did not change is the same object
 * @throws InboxError when the files are not what the seal says
 */
function treeOf(top: Part, digest: string, last: Last | undefined): Held {
  const changed = [...changedCopies(last?.part, top)];
  // Files that come are put in their place; what else happens leaves the order as it is.
  const isInOrder = changed.every(([path, copy]) => !copy?.isRule || last?.files.has(path));
  const files = sourcesOf(true, isInOrder ? changed : all(top), isInOrder ? last?.files : undefined);
  const others = sourcesOf(false, changed, last?.others);
  const text = (path: string): string | undefined => others.get(path)?.text;
  if (!fits(top, digest, text)) checkSeal(new Map([...copiesOf(top)].map((copy) => [copy.path, copy.digest])), text);
  const seal = sealOf([...others.keys()], text);
  return { files, others, tree: { files: new SourceFiles(files), digest, ...(seal ? { seal } : {}) } };
}

function sourcesOf(
  isRule: boolean,
  changed: Iterable<readonly [string, Copy | undefined]>,
  before = Layered.of<TextSource>(new Map()),
): Layered<TextSource> {
  return before.with([...changed].map(([path, copy]) => [path, copy?.isRule === isRule ? copy.source : undefined]));
}

const all = (top: Part): (readonly [string, Copy])[] => [...copiesOf(top)].map((copy) => [copy.path, copy]);

/** True when the seal is, byte for byte, the one that these files have: nothing needs to be parsed then. */
function fits(top: Part, digest: string, text: (path: string) => string | undefined): boolean {
  const sums = text(sumsFile);
  if (sums === undefined) return text(completeFile) === `sha256:${digest}\n`;
  if (!top.folder.files.has(clusterFile)) return false;
  return sums === releaseSumsOf(top);
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
