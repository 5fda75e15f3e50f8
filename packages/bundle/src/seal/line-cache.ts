import { addAll, type BundleTool, type Problem } from '@sluice/netfilter';
import { digestLine, type FileFormat, readAgain, type ResolvedAll, type ScopeKeys } from '../file-cache.ts';
import type { Asks } from '../resolve.ts';
import { type BundleFiles, sourceOf, type TextSource } from '../source.ts';

interface KnownFile<File extends object> {
  readonly path: string;
  readonly source: TextSource;
  readonly asks: Asks;
  /** By the answers to what it asks. */
  readonly lines: Map<string, string>;
  /** As read, while it is used. */
  file: WeakRef<File>;
}

/** More lines of a file are of nodes that have gone. */
const linesMax = 10_000;

/**
 * What versions of nodes are computed from, for many nodes of one bundle after the other, and again after a change of few files.
 * A file names few of the nodes, and is the same on all others: it is resolved once for these. Nothing else of it is kept.
 */
export class LineCache<File extends object, Resolved extends object, Scope extends object> {
  readonly #format: FileFormat<File, Resolved, Scope>;
  readonly #files = new Map<string, KnownFile<File>>();
  /** By the list of paths. */
  #lists = new WeakMap<readonly string[], { readonly of: BundleFiles; readonly known: readonly KnownFile<File>[] }>();

  constructor(format: FileFormat<File, Resolved, Scope>) {
    this.#format = format;
  }

  get size(): number {
    return this.#files.size;
  }

  forget(path: string): void {
    this.#files.delete(path);
  }

  /** The lines of `FileCache.resolveAll`, or its problems; without files. */
  resolveAll(_tool: BundleTool, of: BundleFiles, paths: readonly string[], scope: Scope): ResolvedAll<Resolved> {
    const problems: Problem[] = [];
    const keys = this.#format.keysOf(scope);
    const lines = this.#known(of, paths, problems).map((known) => {
      const key = keyFor(known.asks, keys);
      return known.lines.get(key) ?? this.#resolve(known, key, scope, problems);
    });
    return { files: [], lines, problems };
  }

  #known(of: BundleFiles, paths: readonly string[], problems: Problem[]): readonly KnownFile<File>[] {
    const last = this.#lists.get(paths);
    if (last?.of === of) return last.known;
    const known = paths.flatMap((path) => this.#read(path, sourceOf(of, path) as TextSource, problems) ?? []);
    if (problems.length === 0) this.#lists.set(paths, { of, known });
    return known;
  }

  #read(path: string, source: TextSource, problems: Problem[]): KnownFile<File> | undefined {
    const known = this.#files.get(path);
    if (known?.source.key === source.key) return known;
    const made = this.#format.read(path, source.text);
    if ('problems' in made) {
      addAll(problems, made.problems);
      return undefined;
    }
    const asks = this.#format.asksOf(made.value);
    const read = { path, source, asks, lines: new Map<string, string>(), file: new WeakRef(made.value) };
    this.#files.set(path, read);
    return read;
  }

  #resolve(known: KnownFile<File>, key: string, scope: Scope, problems: Problem[]): string {
    const { path, source, lines } = known;
    let file = known.file.deref();
    if (!file) {
      file = readAgain(this.#format, path, source);
      known.file = new WeakRef(file);
    }
    const made = this.#format.resolve(path, file, scope);
    const refused = 'problems' in made ? made.problems : this.#format.refuse(path, file, made.value, scope);
    addAll(problems, refused);
    if ('problems' in made || refused.length > 0) return '';
    const line = digestLine(path, this.#format.digestOf(made.value));
    if (lines.size >= linesMax) lines.clear();
    lines.set(key, line);
    return line;
  }
}

/** Equal where the answers of two nodes to all that a file asks are equal. */
function keyFor(asks: Asks, keys: ScopeKeys): string {
  if (asks.values || asks.nodes.has(keys.node)) return keys.own;
  return asks.zone ? keys.zone : keys.shared;
}
