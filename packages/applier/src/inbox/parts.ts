import { compareText } from '@sluice/netfilter';
import { changesFile, isOutsideTree, isSealedFile, type TextSource } from '@sluice/bundle';
import type { Stamp } from './read.ts';
import type { Folder } from './walk.ts';

/** The content of a file, independent of when it was written. */
export interface Copy {
  readonly path: string;
  readonly digest: string;
  /** Only of files that this node may need. */
  readonly source: TextSource | undefined;
  /** The format knows it as part of the tree. */
  readonly isRule: boolean;
}

/** One file when it was read last. */
export interface KnownFile {
  readonly stamp: Stamp;
  /** Whether its next change changes the stamp. */
  readonly isSettled: boolean;
  readonly copy: Copy;
}

/** A folder with its part of the digest, so that only changed folders are digested again. */
export interface FolderPart {
  readonly folder: Folder<KnownFile>;
  /** Its lines of `SHA256SUMS`, including folders in it, in pieces that the parent folders share. */
  readonly sums: readonly string[];
  /** In the order of those lines. */
  readonly items: readonly (Copy | FolderPart)[];
  /** By name. */
  readonly parts: ReadonlyMap<string, FolderPart>;
}

/**
 * Builds the parts from the result of a walk.
 *
 * All paths in one folder have the same prefix, so they are adjacent in byte order, at the place of the folder's name with its slash. So
 * the lines of a folder are the lines of its entries, in order.
 * @param before of the last walk; folders of the same value are not read
 */
export function partOf(folder: Folder<KnownFile>, before: FolderPart | undefined): FolderPart {
  if (before?.folder === folder) return before;
  const parts = new Map<string, FolderPart>();
  const named: [key: string, item: Copy | FolderPart][] = [];
  for (const [name, { copy }] of folder.files) named.push([name, copy]);
  for (const [name, inner] of folder.folders) {
    const part = partOf(inner, before?.parts.get(name));
    parts.set(name, part);
    named.push([`${name}/`, part]);
  }
  const items = named.toSorted(([a], [b]) => compareText(a, b)).map(([, item]) => item);
  return { folder, sums: linesOf(items, (path) => !isOutsideTree(path)), items, parts };
}

/** The lines of a release's `SHA256SUMS`: files that it adds at the top count too. */
export function releaseSumsOf(top: FolderPart): string {
  return linesOf(top.items, (path) => isSealedFile(path) || !isOutsideTree(path)).join('');
}

/** Lines in the same form for files at the top that the digest of the tree does not cover: seals, signatures, open waves. Not what a writer tells. */
export function outsideOf(top: FolderPart): string {
  const files = top.items.filter((item) => !('items' in item));
  return linesOf(files, (path) => isOutsideTree(path) && path !== changesFile).join('');
}

/** Every file, in byte order. */
export function* copiesOf(part: FolderPart): Generator<Copy> {
  for (const item of part.items) {
    if ('items' in item) yield* copiesOf(item);
    else yield item;
  }
}

/** The files that were added, removed or changed since another walk. Folders of the same value are skipped. */
export function* changedCopies(
  before: FolderPart | undefined,
  now: FolderPart | undefined,
): Generator<readonly [path: string, Copy | undefined]> {
  if (before === now) return;
  const gone = new Map<string, Copy>();
  for (const item of before?.items ?? []) if (!('items' in item)) gone.set(item.path, item);
  for (const item of now?.items ?? []) {
    if ('items' in item) continue;
    if (gone.get(item.path) !== item) yield [item.path, item];
    gone.delete(item.path);
  }
  for (const path of gone.keys()) yield [path, undefined];
  for (const name of new Set([...(before?.parts.keys() ?? []), ...(now?.parts.keys() ?? [])]))
    yield* changedCopies(before?.parts.get(name), now?.parts.get(name));
}

function linesOf(items: readonly (Copy | FolderPart)[], isIn: (path: string) => boolean): readonly string[] {
  const pieces: string[] = [];
  let lines: string[] = [];
  for (const item of items) {
    if ('items' in item) {
      pieces.push(lines.join(''), ...item.sums);
      lines = [];
    } else if (isIn(item.path)) lines.push(item.digest, '  ', item.path, '\n');
  }
  return [...pieces, lines.join('')].filter((piece) => piece !== '');
}
