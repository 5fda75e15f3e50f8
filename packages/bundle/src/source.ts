import { compareText, differing, Layered } from '@sluice/netfilter';

/** A file's text, which may be unpacked at each access. */
export interface TextSource {
  /** Equal for equal texts, such as a digest; compared instead of the text. */
  readonly key: string;
  readonly text: string;
  /** It takes less memory than what is read of it, which need not be kept. */
  readonly isPacked?: boolean;
}

/** Files whose texts are not all in memory: path → text, with keys to recognise unchanged texts. */
interface SourcedFiles extends ReadonlyMap<string, string> {
  /** By path. An unchanged file keeps the identity of its source. */
  readonly sources: ReadonlyMap<string, TextSource>;
}

/** The files of a bundle, or those that one node needs: path → text. */
export type BundleFiles = ReadonlyMap<string, string> & Partial<Pick<SourcedFiles, 'sources'>>;

/** Files by their sources, in the order of their paths. */
export class SourceFiles implements SourcedFiles {
  readonly sources: ReadonlyMap<string, TextSource>;

  /** @param sources must not change afterwards */
  constructor(sources: ReadonlyMap<string, TextSource>) {
    this.sources = sources;
  }

  get size(): number {
    return this.sources.size;
  }

  get(path: string): string | undefined {
    return this.sources.get(path)?.text;
  }

  has(path: string): boolean {
    return this.sources.has(path);
  }

  *keys(): MapIterator<string> {
    yield* [...this.sources.keys()].toSorted(compareText);
  }

  *entries(): MapIterator<[string, string]> {
    for (const path of this.keys()) yield [path, this.get(path) ?? ''];
  }

  *values(): MapIterator<string> {
    for (const [, text] of this.entries()) yield text;
  }

  [Symbol.iterator](): MapIterator<[string, string]> {
    return this.entries();
  }

  forEach(callback: (text: string, path: string, files: ReadonlyMap<string, string>) => void): void {
    for (const [path, text] of this.entries()) callback(text, path, this);
  }
}

/** The source of a path; undefined for a missing file. */
export function sourceOf(files: BundleFiles, path: string): TextSource | undefined {
  if (files.sources) return files.sources.get(path);
  const text = files.get(path);
  return text === undefined ? undefined : { key: text, text };
}

/** The paths of files that were added, removed or changed. */
export function changedFiles(before: BundleFiles, now: BundleFiles): readonly string[] {
  if (!before.sources || !now.sources) return differing(before, now);
  const [old, updated] = [before.sources, now.sources];
  return differing(old, updated).filter((path) => old.get(path)?.key !== updated.get(path)?.key);
}

/**
 * A bundle with some of its files replaced by those of another one; files that the other one lacks are removed.
 * @param paths of the files to replace
 */
export function withFilesOf(files: BundleFiles, other: BundleFiles, paths: readonly string[]): BundleFiles {
  const replaced = <V>(map: ReadonlyMap<string, V>, from: ReadonlyMap<string, V>): ReadonlyMap<string, V> =>
    Layered.of(map).with(paths.map((path) => [path, from.get(path)] as const));
  if (!files.sources || !other.sources) return replaced(files, other);
  return new SourceFiles(replaced(files.sources, other.sources));
}
