import { differing, Layered } from './link/layered.ts';
import type { ResolvedSection } from './resolve.ts';
import type { TableName } from './rulefile.ts';

/** A file's text, which may be made anew each time it is asked for. */
export interface TextSource {
  /** Equal for equal texts, such as a digest; what is compared in place of the text. */
  readonly key: string;
  readonly text: string;
  /** Whether the text stays in memory anyway, so that nothing is won by letting go of what was read of it. */
  readonly isAtHand: boolean;
}

/** Files whose texts are not all at hand: path → text, and how to tell whether a text is one that was seen before. */
export interface SourcedFiles extends ReadonlyMap<string, string> {
  /** By path. A file that did not change is the same object. */
  readonly sources: ReadonlyMap<string, TextSource>;
}

/** The files of a bundle: path → text. Only those that a node needs have to be there. */
export type BundleFiles = ReadonlyMap<string, string> & Partial<Pick<SourcedFiles, 'sources'>>;

/** Files by their sources. */
export class SourceFiles implements SourcedFiles {
  readonly sources: ReadonlyMap<string, TextSource>;

  /** @param sources in the order of their paths; must not change any more */
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

  keys(): MapIterator<string> {
    return this.sources.keys();
  }

  *entries(): MapIterator<[string, string]> {
    for (const [path, source] of this.sources) yield [path, source.text];
  }

  *values(): MapIterator<string> {
    for (const source of this.sources.values()) yield source.text;
  }

  [Symbol.iterator](): MapIterator<[string, string]> {
    return this.entries();
  }

  forEach(callback: (text: string, path: string, files: ReadonlyMap<string, string>) => void): void {
    for (const [path, text] of this.entries()) callback(text, path, this);
  }
}

/** The text of a path; undefined where there is no such file. */
export function sourceOf(files: BundleFiles, path: string): TextSource | undefined {
  if (files.sources) return files.sources.get(path);
  const text = files.get(path);
  return text === undefined ? undefined : { key: text, text, isAtHand: true };
}

/** The paths of files that came, went or have other contents. */
export function changedFiles(before: BundleFiles, now: BundleFiles): readonly string[] {
  if (!before.sources || !now.sources) return differing(before, now);
  const [old, fresh] = [before.sources, now.sources];
  return differing(old, fresh).filter((path) => old.get(path)?.key !== fresh.get(path)?.key);
}

/** What reads the sections of a file again; it gives the same every time. */
export interface Lender {
  read(): readonly ResolvedSection[];
}

/**
 * A bundle with some of its files as another one has them, or without those that the other one lacks.
 * @param paths of files
 */
export function withFilesOf(files: BundleFiles, other: BundleFiles, paths: readonly string[]): BundleFiles {
  const taken = <V>(map: ReadonlyMap<string, V>, from: ReadonlyMap<string, V>): ReadonlyMap<string, V> =>
    Layered.of(map).with(paths.map((path) => [path, from.get(path)] as const));
  if (!files.sources || !other.sources) return taken(files, other);
  return new SourceFiles(taken(files.sources, other.sources));
}

/**
 * A section of which only its name is kept once it was used. Linkers know files by the identity of their sections, and hardly ever need
 * the rules a second time.
 */
class LentSection implements ResolvedSection {
  /** Those of which more than the name is kept. */
  static readonly held = new Set<LentSection>();
  readonly table: TableName;
  #held: ResolvedSection | undefined;
  readonly #lender: Lender;
  readonly #at: number;

  constructor(section: ResolvedSection, lender: Lender, at: number) {
    this.table = section.table;
    this.#held = section;
    LentSection.held.add(this);
    this.#lender = lender;
    this.#at = at;
  }

  get #section(): ResolvedSection {
    if (this.#held !== undefined) return this.#held;
    LentSection.held.add(this);
    return (this.#held = this.#lender.read()[this.#at] as ResolvedSection);
  }

  get chains(): readonly string[] {
    return this.#section.chains;
  }

  get rules(): readonly string[] {
    return this.#section.rules;
  }

  letGo(): void {
    this.#held = undefined;
    LentSection.held.delete(this);
  }
}

/** Sections that can be read again. */
export function lend(sections: readonly ResolvedSection[], lender: Lender): readonly ResolvedSection[] {
  return sections.map((section, at) => new LentSection(section, lender, at));
}

/**
 * Says that these sections were used: whatever can be read again leaves the memory. Where few are held, of whatever files, all of them
 * go: nobody is to look through 10,000 files for the one that was read, and who still needs one of the others reads it again.
 */
export function letGo(files: readonly (readonly ResolvedSection[])[]): void {
  const sections = LentSection.held.size < files.length ? LentSection.held : files.flat();
  for (const section of sections) if (section instanceof LentSection) section.letGo();
}
