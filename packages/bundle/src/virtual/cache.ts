import type { ProfileFile } from '../documents.ts';
import { type Problem, refusedLine, type ResolvedVirtualFile } from '@sluice/netfilter';
import type { Scope } from '../resolve.ts';
import type { TextSource } from '../source.ts';
import { readPath } from '../tree.ts';
import { readVirtualFile, type VirtualFile } from './file.ts';
import { isVirtualSameEverywhere, resolveVirtual, virtualDigest } from './resolve.ts';

interface Resolved {
  readonly file: ResolvedVirtualFile;
  /** `<digest>  <file>`, for the digest of a node's version; empty when the file resolves to nothing. */
  readonly digestLine: string;
}

interface CachedVirtualFile {
  readonly key: string;
  readonly file: VirtualFile;
  readonly sameEverywhere: boolean;
  resolved?: { readonly scope: string; readonly result: Resolved };
}

/** The node that files are resolved for, with keys for the cache. */
export interface VirtualScope {
  readonly profile: ProfileFile;
  readonly scope: Omit<Scope, 'family'>;
  readonly sharedKey: string;
  readonly nodeKey: string;
}

/** Made once per node, for all its files. */
export function virtualScope(scope: Omit<Scope, 'family'>, profile: ProfileFile): VirtualScope {
  const sharedKey = JSON.stringify([scope.profileValues, profile.families]);
  const nodeKey = JSON.stringify([scope.node, scope.zone ?? null, scope.nodeValues, sharedKey]);
  return { profile, scope, sharedKey, nodeKey };
}

/** Caches resolved `.ipset`, `.ipvs` and `.nft` files by path and text. */
export class VirtualCache {
  readonly #files = new Map<string, CachedVirtualFile>();

  /** The number of cached files. */
  get size(): number {
    return this.#files.size;
  }

  /** Forgets files that the bundle no longer has. */
  keep(files: ReadonlyMap<string, string>): void {
    for (const path of this.#files.keys()) if (!files.has(path)) this.#files.delete(path);
  }

  /**
   * @param path of an `.ipset`, `.ipvs` or `.nft` file
   * @param of a node of a profile; a file of another mode is a problem
   */
  resolve(path: string, source: TextSource, of: VirtualScope): Resolved | readonly Problem[] {
    const { profile, scope, sharedKey, nodeKey } = of;
    const mode = path.endsWith('.nft') ? 'nftables' : 'ipvs';
    if (profile.mode !== mode) return [refusedLine(path, 1, `the profile is not in mode ${mode}`)];
    const cached = this.#read(path, source);
    if (!('file' in cached)) return cached;
    const key = cached.sameEverywhere ? sharedKey : nodeKey;
    if (cached.resolved?.scope === key) return cached.resolved.result;
    const file = resolveVirtual(cached.file, scope, profile.families);
    if (!('path' in file)) return file;
    const digest = virtualDigest(file);
    const belowProfile = path.split('/').slice(2).join('/');
    const result = { file, digestLine: digest === undefined ? '' : `${digest}  ${belowProfile}\n` };
    cached.resolved = { scope: key, result };
    return result;
  }

  #read(path: string, source: TextSource): CachedVirtualFile | readonly Problem[] {
    const known = this.#files.get(path);
    if (known?.key === source.key) return known;
    const what = readPath(path);
    const isKnown = what?.kind === 'base' || what?.kind === 'service';
    if (!isKnown || (what.tool !== 'ipset' && what.tool !== 'ipvs' && what.tool !== 'nft'))
      return [refusedLine(path, 1, 'the format has no such file')];
    const file = readVirtualFile(path, what.tool, what.kind, source.text);
    if (!('lines' in file)) return file;
    const cached: CachedVirtualFile = { key: source.key, file, sameEverywhere: isVirtualSameEverywhere(file) };
    this.#files.set(path, cached);
    return cached;
  }
}
