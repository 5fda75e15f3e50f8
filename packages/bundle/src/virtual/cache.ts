import type { ProfileFile } from '../documents.ts';
import {
  addAll,
  type BundleTool,
  perObject,
  type Problem,
  refusedLine,
  type ResolvedVirtualFile,
} from '@sluice/netfilter';
import { evictableFile, type FileReader } from '../evictable.ts';
import type { Scope } from '../resolve.ts';
import { type BundleFiles, changedFiles, sourceOf, type TextSource } from '../source.ts';
import { readPath } from '../tree.ts';
import { readVirtualFile, type VirtualFile } from './file.ts';
import { isVirtualSameEverywhere, resolveVirtual, virtualDigest } from './resolve.ts';

interface CachedVirtualFile {
  readonly key: string;
  /** Undefined once it is unlikely to be needed again: only for another node. */
  file: VirtualFile | undefined;
  readonly sameEverywhere: boolean;
  resolved: Resolved | undefined;
}

interface Resolved {
  readonly scope: string;
  readonly file: ResolvedVirtualFile;
  /** `<digest>  <file>`, for the digest of a node's version; empty when the file resolves to nothing. */
  readonly digestLine: string;
}

/** The resolved files of one tool, in the order of loading. */
interface ResolvedFilesOfTool {
  readonly files: readonly ResolvedVirtualFile[];
  /** One per file, for the digest of a node's version. */
  readonly lines: readonly string[];
  readonly problems: readonly Problem[];
}

interface LastFilesOfTool extends ResolvedFilesOfTool {
  readonly of: BundleFiles;
  readonly paths: readonly string[];
  readonly nodeKey: string;
}

const placesOf = perObject((paths: readonly string[]) => new Map(paths.map((path, at) => [path, at])));

/** The node that files are resolved for, with keys for the cache. */
export interface VirtualScope {
  readonly profile: ProfileFile;
  readonly scope: Omit<Scope, 'family'>;
  readonly sharedKey: string;
  readonly nodeKey: string;
}

/** Made once per node, for all its files. */
export function virtualScope(scope: Omit<Scope, 'family'>, profile: ProfileFile): VirtualScope {
  const sharedKey = JSON.stringify([profile.mode, scope.profileValues, profile.families]);
  const nodeKey = JSON.stringify([scope.node, scope.zone ?? null, scope.nodeValues, sharedKey]);
  return { profile, scope, sharedKey, nodeKey };
}

/** Caches resolved `.ipset`, `.ipvs` and `.nft` files by path and text. */
export class VirtualCache {
  readonly #files = new Map<string, CachedVirtualFile>();
  readonly #last = new Map<BundleTool, LastFilesOfTool>();

  /** The number of cached files. */
  get size(): number {
    return this.#files.size;
  }

  /** Forgets files that the bundle no longer has. */
  keep(files: ReadonlyMap<string, string>): void {
    for (const path of this.#files.keys()) if (!files.has(path)) this.#files.delete(path);
  }

  /**
   * Resolves the files of one tool; of those that were resolved last for the same node, only what changed.
   * @param paths in the order of loading: the same list as before if no file was added or removed
   */
  resolveAll(tool: BundleTool, of: BundleFiles, paths: readonly string[], scope: VirtualScope): ResolvedFilesOfTool {
    const last = this.#last.get(tool);
    const known = last?.paths === paths && last.nodeKey === scope.nodeKey ? last : undefined;
    const [files, lines, problems] = [[...(known?.files ?? [])], [...(known?.lines ?? [])], [] as Problem[]];
    const places = placesOf(paths);
    for (const path of known ? changedFiles(known.of, of).filter((one) => places.has(one)) : paths) {
      const done = this.resolve(path, sourceOf(of, path) as TextSource, scope);
      const at = places.get(path) as number;
      if ('file' in done) [files[at], lines[at]] = [done.file, done.digestLine];
      else addAll(problems, done);
    }
    if (problems.length > 0) this.#last.delete(tool);
    else this.#last.set(tool, { files, lines, problems, of, paths, nodeKey: scope.nodeKey });
    return { files, lines, problems };
  }

  /**
   * @param path of an `.ipset`, `.ipvs` or `.nft` file
   * @param of a node of a profile; a file of another mode is a problem
   */
  resolve(path: string, source: TextSource, of: VirtualScope): Resolved | readonly Problem[] {
    const { profile, sharedKey, nodeKey } = of;
    const mode = path.endsWith('.nft') ? 'nftables' : 'ipvs';
    if (profile.mode !== mode) return [refusedLine(path, 1, `the profile is not in mode ${mode}`)];
    const cached = this.#read(path, source);
    if (!('sameEverywhere' in cached)) return cached;
    const scope = cached.sameEverywhere ? sharedKey : nodeKey;
    if (cached.resolved?.scope === scope) return cached.resolved;
    const reader = new VirtualFileReader(path, source, of);
    const file = reader.resolve(cached.file ?? readAgain(path, source));
    if (!('path' in file)) return file;
    const isEvictable = !source.isInMemory;
    if (isEvictable) cached.file = undefined;
    cached.resolved = { scope, file: isEvictable ? evictableFile(file, reader) : file, digestLine: digestLine(file) };
    return cached.resolved;
  }

  #read(path: string, source: TextSource): CachedVirtualFile | readonly Problem[] {
    const known = this.#files.get(path);
    if (known?.key === source.key) return known;
    const file = readFile(path, source);
    if (!('lines' in file)) return file;
    const cached: CachedVirtualFile = {
      key: source.key,
      file,
      sameEverywhere: isVirtualSameEverywhere(file),
      resolved: undefined,
    };
    this.#files.set(path, cached);
    return cached;
  }
}

/** Resolves one file for one node, later again from its text. */
class VirtualFileReader implements FileReader<ResolvedVirtualFile> {
  readonly #path: string;
  readonly #source: TextSource;
  readonly #of: VirtualScope;

  constructor(path: string, source: TextSource, of: VirtualScope) {
    this.#path = path;
    this.#source = source;
    this.#of = of;
  }

  resolve(file: VirtualFile): ResolvedVirtualFile | readonly Problem[] {
    return resolveVirtual(file, this.#of.scope, this.#of.profile.families);
  }

  read(): ResolvedVirtualFile {
    const again = this.resolve(readAgain(this.#path, this.#source));
    if ('path' in again) return again;
    throw new Error(`${this.#path} changed while it was in use`);
  }
}

/** In one piece: parts of texts would keep all of these in memory. */
function digestLine(file: ResolvedVirtualFile): string {
  const digest = virtualDigest(file);
  const belowProfile = file.path.split('/').slice(2).join('/');
  return digest === undefined ? '' : [digest, '  ', belowProfile, '\n'].join('');
}

function readFile(path: string, { text }: TextSource): VirtualFile | readonly Problem[] {
  const what = readPath(path);
  const isKnown = what?.kind === 'base' || what?.kind === 'service';
  if (!isKnown || (what.tool !== 'ipset' && what.tool !== 'ipvs' && what.tool !== 'nft'))
    return [refusedLine(path, 1, 'the format has no such file')];
  return readVirtualFile(path, what.tool, what.kind, text);
}

/** Reads a file that had no problems before. */
function readAgain(path: string, source: TextSource): VirtualFile {
  const file = readFile(path, source);
  if ('lines' in file) return file;
  throw new Error(`${path} changed while it was in use`);
}
