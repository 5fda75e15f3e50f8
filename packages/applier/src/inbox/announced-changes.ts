import { closeSync } from 'node:fs';
import { changesBetween, changesBytesMax, changesFile, completeFile, completeForm, sumsFile } from '@sluice/bundle';
import { unlessMissing } from '../kernel/open-file.ts';
import { limits } from '../limits.ts';
import { type OpenDirectory, openFolder } from './descend.ts';
import { bytesOf, type Content, hasEntry, readIn, type WalkedFile } from './read.ts';
import { checkTrust, type Trust } from './trust.ts';
import type { Folder, Visited } from './walk.ts';

/** What its writer says of a directory. */
export interface AnnouncedChanges {
  /** The `.sluice-complete` that it has now. */
  readonly complete: string;
  /** The files that are new, changed or gone since an earlier state, and `.sluice-complete`. */
  readonly paths: readonly string[];
}

/**
 * Reads what the writer of a directory says to have changed since a state. It is a hint what to read, and nothing else: the digest of the
 * tree must fit afterwards.
 * @param from the `.sluice-complete` of that state
 * @returns `unsealed` where there is no seal; undefined where the writer says nothing about that state, and for a release
 * @throws InboxError for files that are not to be trusted; errors of the file system
 */
export function readAnnouncedChanges(
  top: OpenDirectory,
  from: string,
  trust: Trust | undefined,
): AnnouncedChanges | 'unsealed' | undefined {
  if (hasEntry(top, sumsFile)) return undefined;
  const complete = textOf(top, completeFile, trust);
  if (complete === undefined) return 'unsealed';
  if (!completeForm.test(complete)) return undefined;
  const text = textOf(top, changesFile, trust);
  if (text === undefined || text.length > changesBytesMax) return undefined;
  const paths = changesBetween(text, from, complete);
  return paths && { complete, paths: [...paths, completeFile] };
}

function textOf(top: OpenDirectory, name: string, trust: Trust | undefined): string | undefined {
  return unlessMissing(() => readIn(top.fd, name, name, trust))?.bytes.toString('utf8');
}

/** Reads single files of a directory, each folder opened from its parent without following links, as a walk does. */
export class FileReader {
  readonly #trust: Trust | undefined;
  /** By path, with a slash behind each name. */
  readonly #folders = new Map<string, number | undefined>();

  constructor(top: OpenDirectory, trust: Trust | undefined) {
    this.#trust = trust;
    this.#folders.set('', top.fd);
  }

  /** @returns undefined: there is no such file */
  read(path: string): Content | undefined {
    const at = path.lastIndexOf('/') + 1;
    const folder = this.#open(path.slice(0, at));
    return folder === undefined ? undefined : unlessMissing(() => readIn(folder, path.slice(at), path, this.#trust));
  }

  #open(path: string): number | undefined {
    if (this.#folders.has(path)) return this.#folders.get(path);
    const at = path.lastIndexOf('/', path.length - 2) + 1;
    const above = this.#open(path.slice(0, at));
    const opened = above === undefined ? undefined : unlessMissing(() => openFolder(above, path.slice(at, -1)));
    this.#folders.set(path, opened?.fd);
    if (opened) checkTrust(path.slice(0, -1), opened.stats, 'inside', this.#trust);
    return opened?.fd;
  }

  /** Closes what it has opened. */
  close(): void {
    for (const [path, fd] of this.#folders) if (path !== '' && fd !== undefined) closeSync(fd);
    this.#folders.clear();
  }
}

/** A file of a walk that was read already. */
export const walkedFile = (path: string, content: Content): WalkedFile => ({ path, stamp: '', read: () => content });

/** The file of a walk at a path. */
export function fileAt<File>(top: Folder<File>, path: string): File | undefined {
  const [name = '', ...names] = path.split('/').toReversed();
  let folder: Folder<File> | undefined = top;
  for (const one of names.toReversed()) folder = folder?.folders.get(one);
  return folder?.files.get(name);
}

/**
 * The result of a walk with other files. Folders keep their stamps, so the next walk lists those that changed.
 * @param changes path → file; undefined: it is gone
 * @returns the same value for a folder without changes; undefined for one without any file
 */
export function withFiles<File extends Visited>(
  before: Folder<File> | undefined,
  changes: ReadonlyMap<string, File | undefined>,
): Folder<File> | undefined {
  if (changes.size === 0) return before;
  const files = new Map(before?.files);
  const folders = new Map(before?.folders);
  let bytes = before?.bytes ?? 0;
  const inner = new Map<string, Map<string, File | undefined>>();
  for (const [path, file] of changes) {
    const at = path.indexOf('/');
    if (at >= 0) {
      const name = path.slice(0, at);
      const own = inner.get(name) ?? new Map<string, File | undefined>();
      inner.set(name, own.set(path.slice(at + 1), file));
      continue;
    }
    bytes += (file ? bytesOf(file.stamp) : 0) - bytesOf(files.get(path)?.stamp ?? '');
    if (file) files.set(path, file);
    else files.delete(path);
  }
  for (const [name, own] of inner) {
    const folder = withFiles(folders.get(name), own);
    if (folder) folders.set(name, folder);
    else folders.delete(name);
  }
  if (files.size + folders.size === 0) return undefined;
  return { stamp: before?.stamp ?? '', entries: files.size + folders.size, bytes, files, folders };
}

/** Whether a directory is within the limits of a bundle. */
export function isWithinLimits(top: Folder<Visited>): boolean {
  const [entries, bytes] = sizeOf(top);
  return entries <= limits.bundleFilesMax && bytes <= limits.bundleBytesMax;
}

function sizeOf({ entries, bytes, folders }: Folder<Visited>): readonly [entries: number, bytes: number] {
  let sums: readonly [number, number] = [entries, bytes];
  for (const folder of folders.values()) {
    const [innerEntries, innerBytes] = sizeOf(folder);
    sums = [sums[0] + innerEntries, sums[1] + innerBytes];
  }
  return sums;
}
