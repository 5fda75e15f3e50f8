import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type BundleFiles,
  clusterFile,
  completeFile,
  completeText,
  fileDigest,
  isReleaseFile,
  isSignatureFile,
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
import { Layered } from '@sluice/netfilter';
import type { OpenDirectory } from './descend.ts';
import {
  changedCopies,
  copiesOf,
  type Copy,
  type KnownFile,
  outsideOf,
  type FolderPart,
  partOf,
  releaseSumsOf,
} from './parts.ts';
import { PackedText } from './packed.ts';
import { hasEntry, isSettled, stampOf, type WalkedFile } from './read.ts';
import {
  fileAt,
  FileReader,
  isWithinLimits,
  readAnnouncedChanges,
  type AnnouncedChanges,
  walkedFile,
  withFiles,
} from './announced-changes.ts';
import { InboxError, type Trust } from './trust.ts';
import { type Folder, type WalkOptions, walkAgain, walkInSteps } from './walk.ts';

/** The parts that only a release has, unparsed. `sums` matches the files; nothing else is verified. */
export interface Seal {
  readonly sums: string;
  readonly release: string | undefined;
  /** File → text. */
  readonly signatures: ReadonlyMap<string, string>;
  /** `waves.yaml`, where the release has waves. */
  readonly waves?: string | undefined;
  /** `waves-open.yaml`, which is not in the sums, and its signature. */
  readonly opening?: string | undefined;
  readonly openingSignature?: string | undefined;
}

/** A complete tree, according to its seal. */
export interface Tree {
  readonly files: BundleFiles;
  /** Equal for equal trees. */
  readonly digest: string;
  /** Only of a release. */
  readonly seal?: Seal;
}

/** How much of a directory is read: everything, or what its folders do not show to be unchanged. */
export type Extent = 'whole' | 'changed';

/** The last tree, and what its seal covers. */
interface Last extends TreeFiles {
  readonly outside: string;
  readonly part: FolderPart;
}

/** A tree, and its files: those of the format, and all others. */
interface TreeFiles {
  readonly tree: Tree;
  readonly files: Layered<TextSource>;
  readonly others: Layered<TextSource>;
}

/**
 * A bundle in plain files: a release, or the output of `sluice render`.
 *
 * Each file is copied into the memory of this process and hashed there, and only the copy is used: other users cannot write to it, a full
 * disk does not matter, and a crash leaves no part of it. Copies are remembered by device, inode, size, mtime and ctime, so an unchanged
 * tree costs one stat per file, and one changed file is one file read.
 *
 * After an event even that is too much. Writers put files in place by renaming, which changes the folder; so only changed folders are
 * listed, and then the seal proves that nothing was missed, not even a second change within a tick of the file system's clock: it covers
 * every file, including those that were not read. A file that was written in place, against the seal, is found by the next whole look.
 * Where the writer says what it changed, not even folders are listed, and the same seal proves it.
 */
export class PlainFiles {
  #top: Folder<KnownFile> | undefined;
  #part: FolderPart | undefined;
  readonly #digest = new TextsDigest();
  #last: Last | undefined;
  /** Whether the last whole walk passed: problems that it found, such as a file writable by others, only a whole look can clear. */
  #passedWhole = false;
  /** How many files were ever copied. */
  #copies = 0;
  /** Whether the last look found no seal, and files that are new or changed: a writer is at work. */
  isFilling = false;
  /** Whether the last look read every file. */
  wasWhole = false;
  /** The last tree was read by what its writer told: the writer will tell the next change, too. */
  #isAnnounced = false;
  readonly #nowMs: () => number;
  readonly #trust: Trust | undefined;

  /** @param nowMs the time of day, to detect files that may change again within the same tick of the file system's clock */
  constructor(nowMs: () => number, trust: Trust | undefined) {
    this.#nowMs = nowMs;
    this.#trust = trust;
  }

  /** True when the directory has one of the two files that seal a bundle. */
  static isBundle(directory: OpenDirectory): boolean {
    return hasEntry(directory, sumsFile) || hasEntry(directory, completeFile);
  }

  /**
   * Reads the changes and compares the tree with its seal. Without a seal it reads ahead of it: what is read need not be read again.
   * @returns the same value as before when nothing changed
   * @throws InboxError when it is incomplete or has files that no bundle has
   */
  read(directory: OpenDirectory, extent: Extent): Tree {
    this.isFilling = false;
    this.wasWhole = false;
    if (extent === 'changed' && this.#passedWhole) {
      try {
        return this.#takeAnnounced(directory) ?? this.#take(directory, 'changed');
      } catch (error) {
        if (error instanceof NoSeal) throw error;
        // An unfinished writer, or a file written in place: a whole look tells which.
      }
    }
    this.#passedWhole = false;
    this.wasWhole = true;
    return this.#take(directory, 'whole');
  }

  /**
   * Reads what the writer says to have changed.
   * @returns undefined where a walk must find the changes: nothing is told, or it is not all that changed
   */
  #takeAnnounced(directory: OpenDirectory): Tree | undefined {
    const [last, top] = [this.#last, this.#top];
    const wasAnnounced = this.#isAnnounced;
    this.#isAnnounced = false;
    if (!last || !top || last.tree.seal) return undefined;
    const announced = readAnnouncedChanges(directory, sealText(last.tree.digest), this.#trust);
    if (announced === 'unsealed') {
      this.#isAnnounced = wasAnnounced;
      if (wasAnnounced) throw new NoSeal();
      return undefined;
    }
    const now = announced && withFiles(top, this.#copyAnnounced(directory, announced, top));
    if (!now || !isWithinLimits(now)) return undefined;
    const part = partOf(now, this.#part);
    const digest = this.#digest.of(part.sums);
    if (announced.complete !== sealText(digest)) return undefined;
    this.#isAnnounced = true;
    return this.#accept(now, part, digest);
  }

  #copyAnnounced(
    directory: OpenDirectory,
    { paths }: AnnouncedChanges,
    top: Folder<KnownFile>,
  ): ReadonlyMap<string, KnownFile | undefined> {
    const nowMs = this.#nowMs();
    const reader = new FileReader(directory, this.#trust);
    try {
      return new Map(
        paths.map((path) => {
          const content = reader.read(path);
          return [path, content && this.#copy(walkedFile(path, content), nowMs, fileAt(top, path))];
        }),
      );
    } finally {
      reader.close();
    }
  }

  /**
   * Reads every file, and lets other work go on between its steps.
   * @param interrupt when it aborts before all files were seen, the last tree stays what is known
   * @throws InboxError as `read`
   */
  async readInSteps(directory: OpenDirectory, interrupt: AbortSignal): Promise<Tree | 'interrupted'> {
    this.isFilling = false;
    this.wasWhole = true;
    const copies = this.#copies;
    const steps = walkInSteps(directory, this.#optionsOf('whole'), this.#top);
    try {
      for (;;) {
        const step = steps.next();
        if (step.done === true) return this.#taken(step.value, 'whole', copies);
        await nextTurn();
        if (interrupt.aborted) return 'interrupted';
      }
    } catch (error) {
      // A file that a writer is replacing: what it writes is looked at next.
      await nextTurn();
      if (interrupt.aborted) return 'interrupted';
      this.#passedWhole = false;
      throw error;
    } finally {
      steps.return(undefined as never);
    }
  }

  #take(directory: OpenDirectory, extent: Extent): Tree {
    const copies = this.#copies;
    return this.#taken(walkAgain(directory, this.#optionsOf(extent), this.#top), extent, copies);
  }

  #optionsOf(extent: Extent): WalkOptions<KnownFile> {
    const nowMs = this.#nowMs();
    // The seal proves what an unsettled stamp does not.
    const isSame = (file: WalkedFile, before: KnownFile | undefined): before is KnownFile =>
      before?.stamp === file.stamp && (before.isSettled || extent === 'changed');
    const visit = (file: WalkedFile, before: KnownFile | undefined): KnownFile =>
      isSame(file, before) ? before : this.#copy(file, nowMs, before);
    return { trust: this.#trust, whole: extent === 'whole', readsNew: true, visit };
  }

  /** @param copiesBefore how many files were ever copied before this walk */
  #taken(top: Folder<KnownFile>, extent: Extent, copiesBefore: number): Tree {
    this.#top = top;
    this.#passedWhole ||= extent === 'whole';
    if (!isSealed(top)) {
      this.isFilling = this.#copies > copiesBefore;
      throw new NoSeal();
    }
    const part = partOf(top, this.#part);
    this.#part = part;
    return this.#accept(top, part, this.#last?.part === part ? this.#last.tree.digest : this.#digest.of(part.sums));
  }

  /** Remembers a walk. @returns its tree, which is the same value as before when nothing changed */
  #accept(top: Folder<KnownFile>, part: FolderPart, digest: string): Tree {
    this.#top = top;
    this.#part = part;
    const outside = outsideOf(part);
    const last = this.#last;
    const isSameTree = last?.tree.digest === digest && last.outside === outside;
    const current = isSameTree ? last : treeOf(part, digest, last);
    // Remembered for an equal tree too: only one walk is kept.
    this.#last = { ...current, outside, part };
    return current.tree;
  }

  #copy(file: WalkedFile, nowMs: number, before: KnownFile | undefined): KnownFile {
    const { path } = file;
    const kind = readPath(path);
    const seal = path === completeFile || isReleaseFile(path);
    if (!kind && !seal && !path.startsWith('.sluice-')) throw unknownFile(path);
    const { bytes, stats } = file.read();
    this.#copies += 1;
    const digest = fileDigest(bytes);
    const read = { stamp: stampOf(stats), isSettled: isSettled(stats, nowMs) };
    if (before?.copy.digest === digest) return { ...read, copy: before.copy };
    // Including files of other nodes: they tell where endpoints may be.
    const source = seal || kind ? new PackedText(bytes, digest) : undefined;
    return { ...read, copy: { path, digest, source, isRule: kind !== undefined } };
  }
}

/** The `.sluice-complete` of a tree with this digest. */
const sealText = (digest: string): string => `sha256:${digest}\n`;

const isSealed = ({ files }: Folder<KnownFile>): boolean => files.has(sumsFile) || files.has(completeFile);

/**
 * @param digest of its lines
 * @param last the last result; an unchanged file is the same object
 * @throws InboxError when the files do not match the seal
 */
function treeOf(top: FolderPart, digest: string, last: Last | undefined): TreeFiles {
  const changed = [...changedCopies(last?.part, top)];
  const files = sourcesOf(true, changed, last?.files);
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

/** True when the seal is, byte for byte, the one that these files have: then nothing needs to be parsed. */
function fits(top: FolderPart, digest: string, text: (path: string) => string | undefined): boolean {
  const sums = text(sumsFile);
  if (sums === undefined) return text(completeFile) === sealText(digest);
  if (!top.folder.files.has(clusterFile)) return false;
  return sums === releaseSumsOf(top);
}

/** The seal of a release; undefined for other bundles. To be called when `checkSeal` has passed. */
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

export function unknownFile(path: string): InboxError {
  return new InboxError(
    `Cannot read the bundle: unknown file ${JSON.stringify(path)}`,
    'If a newer version of sluice wrote it, upgrade sluiced first; if not, render into an empty directory',
  );
}

/**
 * packages/bundle/README.md, "When is a directory a bundle?"
 * @throws InboxError when the files do not match the seal
 */
export function checkSeal(digests: ReadonlyMap<string, string>, text: (path: string) => string | undefined): void {
  const sums = text(sumsFile);
  if (sums !== undefined) {
    const misfit = sumsMisfit(sums, digests);
    if (misfit === undefined) return;
    throw new Incomplete(`SHA256SUMS does not match the files: ${misfit}`);
  }
  const complete = text(completeFile);
  if (complete === undefined) throw new NoSeal();
  if (complete !== completeText(digests)) throw new Incomplete('.sluice-complete does not match the files');
}

class Incomplete extends InboxError {
  constructor(why: string) {
    const hint = 'Wait until it is complete, or render it again: the next `sluice render` repairs an interrupted one';
    super(`Cannot use the directory as a bundle: ${why}`, hint);
  }
}

class NoSeal extends Incomplete {
  constructor() {
    super('it has neither SHA256SUMS nor .sluice-complete');
  }
}
