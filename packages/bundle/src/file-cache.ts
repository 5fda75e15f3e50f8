import { addAll, type BundleTool, commonEnds, perObject, type Problem } from '@sluice/netfilter';
import type { Asks, Scope as NodeScope } from './resolve.ts';
import { type BundleFiles, changedFiles, sourceOf, type TextSource } from './source.ts';

/** A value, or all problems that keep it from being made. */
type Made<T> = { readonly value: T } | { readonly problems: readonly Problem[] };

/** How files of one format are read, and resolved for a node: `File` is what a text says, `Resolved` what it is on the node of `Scope`. */
export interface FileFormat<File extends object, Resolved extends object, Scope extends object> {
  readonly read: (path: string, text: string) => Made<File>;
  /** Whether it resolves to the same on every node of a profile. */
  readonly isSameEverywhere: (file: File) => boolean;
  readonly asksOf: (file: File) => Asks;
  readonly resolve: (path: string, file: File, scope: Scope) => Made<Resolved>;
  /** What a resolved file may not hold. It is asked once: a file that is read again passed. */
  readonly refuse: (path: string, file: File, resolved: Resolved, scope: Scope) => readonly Problem[];
  /** The resolved file of a packed text, which may be made again in parts. Left out: it is kept as it is. */
  readonly released?: (resolved: Resolved, again: () => Resolved) => Resolved;
  readonly keysOf: (scope: Scope) => ScopeKeys;
  /** For the digest of a node's version; undefined for an empty result. */
  readonly digestOf: (resolved: Resolved) => string | undefined;
}

/** The parts of a scope that a result depends on, as texts: of a file that is the same everywhere, of one that asks for the zone, of others. */
export interface ScopeKeys {
  readonly node: string;
  readonly shared: string;
  readonly zone: string;
  readonly own: string;
}

/** @param shared what nodes of a profile share */
export function scopeKeys({ node, zone, nodeValues }: Omit<NodeScope, 'family'>, shared: string): ScopeKeys {
  return {
    node,
    shared,
    zone: JSON.stringify([zone ?? null, shared]),
    own: JSON.stringify([node, zone ?? null, nodeValues, shared]),
  };
}

/** The resolved files of one tool, in the order of loading. */
export interface ResolvedAll<Resolved> {
  /** An unchanged file keeps its identity. */
  readonly files: readonly Resolved[];
  /** One per file, `<digest>  <file>\n`, for the digest of a node's version; empty when the file resolves to nothing. */
  readonly lines: readonly string[];
  readonly problems: readonly Problem[];
}

interface CachedFile<File, Resolved> {
  readonly key: string;
  /** Undefined once it is unlikely to be needed again. */
  file: File | undefined;
  readonly isSameEverywhere: boolean;
  resolved: ResolvedFile<Resolved> | undefined;
}

interface ResolvedFile<Resolved> {
  readonly scope: string;
  readonly file: Resolved;
  readonly line: string;
}

interface LastAll<Resolved> extends ResolvedAll<Resolved> {
  readonly of: BundleFiles;
  readonly paths: readonly string[];
  readonly scope: string;
}

/** What is known of the files of a list, in the places that they have in another one. `added`: the files whose places are left open. */
function inPlaces<Resolved>(
  { paths: before, files, lines }: LastAll<Resolved>,
  paths: readonly string[],
): { readonly files: Resolved[]; readonly lines: string[]; readonly added: readonly string[] } {
  if (before === paths) return { files: [...files], lines: [...lines], added: [] };
  const { head, tail } = commonEnds(before, paths);
  const places = placesOf(before);
  const middle = paths.slice(head, paths.length - tail);
  const moved = <T>(list: readonly T[]): T[] => [
    ...list.slice(0, head),
    ...middle.map((path) => list[places.get(path) ?? -1] as T),
    ...list.slice(list.length - tail),
  ];
  return { files: moved(files), lines: moved(lines), added: middle.filter((path) => !places.has(path)) };
}

const placesOf = perObject((paths: readonly string[]) => new Map(paths.map((path, at) => [path, at])));

/** Caches resolved files of one format by path and text: an unchanged one costs a look-up, or nothing for the node that was resolved last. */
export class FileCache<File extends object, Resolved extends object, Scope extends object> {
  readonly #format: FileFormat<File, Resolved, Scope>;
  readonly #files = new Map<string, CachedFile<File, Resolved>>();
  readonly #last = new Map<BundleTool, LastAll<Resolved>>();

  constructor(format: FileFormat<File, Resolved, Scope>) {
    this.#format = format;
  }

  /** The number of cached files. */
  get size(): number {
    return this.#files.size;
  }

  /** Forgets a file that the bundle no longer has. */
  forget(path: string): void {
    this.#files.delete(path);
  }

  /**
   * Resolves the files of one tool; of those that were resolved last for the same node, only what changed.
   * @param paths in the order of loading, each once: the same list as before if no file was added or removed
   * @param scope one object for a node, which keeps its keys
   */
  resolveAll(tool: BundleTool, of: BundleFiles, paths: readonly string[], scope: Scope): ResolvedAll<Resolved> {
    const last = this.#last.get(tool);
    const key = this.#format.keysOf(scope).own;
    const known = last?.scope === key ? last : undefined;
    const places = placesOf(paths);
    const { files, lines, added } = known ? inPlaces(known, paths) : { files: [], lines: [], added: paths };
    const changed = known ? changedFiles(known.of, of).filter((path) => places.has(path)) : [];
    if (known?.paths === paths && changed.length === 0) {
      this.#last.set(tool, { ...known, of });
      return known;
    }
    const problems: Problem[] = [];
    for (const path of new Set([...added, ...changed])) {
      const made = this.#resolve(path, sourceOf(of, path) as TextSource, scope);
      const at = places.get(path) as number;
      if ('value' in made) [files[at], lines[at]] = [made.value.file, made.value.line];
      else addAll(problems, made.problems);
    }
    if (problems.length > 0) this.#last.delete(tool);
    else this.#last.set(tool, { files, lines, problems, of, paths, scope: key });
    return { files, lines, problems };
  }

  #resolve(path: string, source: TextSource, scope: Scope): Made<ResolvedFile<Resolved>> {
    const read = this.#read(path, source);
    if ('problems' in read) return read;
    const cached = read.value;
    const key = this.#format.keysOf(scope)[cached.isSameEverywhere ? 'shared' : 'own'];
    if (cached.resolved?.scope === key) return { value: cached.resolved };
    const file = cached.file ?? readAgain(this.#format, path, source);
    const made = this.#format.resolve(path, file, scope);
    if ('problems' in made) return made;
    const problems = this.#format.refuse(path, file, made.value, scope);
    if (problems.length > 0) return { problems };
    // A program that resolves many nodes needs a file again for each, unless it is the same for all.
    if (cached.isSameEverywhere || source.isPacked === true) cached.file = undefined;
    cached.resolved = {
      scope: key,
      file: source.isPacked === true ? this.#released(path, source, scope, made.value) : made.value,
      line: digestLine(path, this.#format.digestOf(made.value)),
    };
    return { value: cached.resolved };
  }

  #released(path: string, source: TextSource, scope: Scope, resolved: Resolved): Resolved {
    const format = this.#format;
    const resolveAgain = (): Resolved => again(path, format.resolve(path, readAgain(format, path, source), scope));
    return format.released?.(resolved, resolveAgain) ?? resolved;
  }

  #read(path: string, source: TextSource): Made<CachedFile<File, Resolved>> {
    const known = this.#files.get(path);
    if (known?.key === source.key) return { value: known };
    const made = this.#format.read(path, source.text);
    if ('problems' in made) return made;
    const { value: file } = made;
    const cached: CachedFile<File, Resolved> = {
      key: source.key,
      file,
      isSameEverywhere: this.#format.isSameEverywhere(file),
      resolved: undefined,
    };
    this.#files.set(path, cached);
    return { value: cached };
  }
}

/** What had no problems before. */
export const readAgain = <File extends object, Resolved extends object, Scope extends object>(
  format: FileFormat<File, Resolved, Scope>,
  path: string,
  { text }: TextSource,
): File => again(path, format.read(path, text));

function again<T>(path: string, made: Made<T>): T {
  if ('value' in made) return made.value;
  throw new Error(`${path} changed while it was in use`);
}

/** In one piece: parts of texts would keep all of these in memory. */
export function digestLine(path: string, digest: string | undefined): string {
  const belowProfile = path.split('/').slice(2).join('/');
  return digest === undefined ? '' : [digest, '  ', belowProfile, '\n'].join('');
}
