import type { FileSections, ResolvedLine, ResolvedSection, ResolvedVirtualFile, TableName } from '@sluice/netfilter';

/**
 * A part of a resolved file that can be evicted from memory after use; later accesses read it again. Readers identify parts by the
 * object, and rarely need the content twice.
 */
abstract class Evictable<T extends object> {
  #content: T | undefined;

  constructor(content: T) {
    this.#content = content;
  }

  /** Reads the content again, with the same result. */
  protected abstract read(): T;

  protected get content(): T {
    return (this.#content ??= this.read());
  }

  evict(): void {
    this.#content = undefined;
  }
}

/** Reads a resolved file again, with the same result. */
export interface FileReader<T> {
  read(): T;
}

class EvictableSection extends Evictable<ResolvedSection> implements ResolvedSection {
  readonly table: TableName;
  readonly #reader: FileReader<FileSections>;
  readonly #at: number;

  constructor(section: ResolvedSection, reader: FileReader<FileSections>, at: number) {
    super(section);
    this.table = section.table;
    this.#reader = reader;
    this.#at = at;
  }

  protected read(): ResolvedSection {
    return this.#reader.read()[this.#at] as ResolvedSection;
  }

  get chains(): readonly string[] {
    return this.content.chains;
  }

  get rules(): readonly string[] {
    return this.content.rules;
  }
}

/** Sections that `evict` can evict. */
export function evictableSections(sections: FileSections, reader: FileReader<FileSections>): FileSections {
  return sections.map((section, at) => new EvictableSection(section, reader, at));
}

class EvictableFile extends Evictable<readonly ResolvedLine[]> implements ResolvedVirtualFile {
  readonly path: string;
  readonly #reader: FileReader<ResolvedVirtualFile>;

  constructor({ path, lines }: ResolvedVirtualFile, reader: FileReader<ResolvedVirtualFile>) {
    super(lines);
    this.path = path;
    this.#reader = reader;
  }

  protected read(): readonly ResolvedLine[] {
    return this.#reader.read().lines;
  }

  get lines(): readonly ResolvedLine[] {
    return this.content;
  }
}

/** A file whose lines `evict` can evict. */
export function evictableFile(file: ResolvedVirtualFile, reader: FileReader<ResolvedVirtualFile>): ResolvedVirtualFile {
  return new EvictableFile(file, reader);
}

/** Evicts these files, or sections of files, from memory; later accesses read them again. */
export function evict(files: readonly (FileSections | ResolvedVirtualFile)[]): void {
  // After each change, for 10,000 files: without an object for each turn.
  for (let at = 0; at < files.length; at++) {
    const file = files[at] as FileSections | ResolvedVirtualFile;
    if (file instanceof Evictable) file.evict();
    else if (Array.isArray(file)) file.forEach(evictPart);
  }
}

const evictPart = (part: object): void => {
  if (part instanceof Evictable) part.evict();
};
