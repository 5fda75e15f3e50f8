import { perObject, refusedLine, type ResolvedVirtualFile } from '@sluice/netfilter';
import type { ProfileFile } from '../documents.ts';
import { type FileFormat, scopeKeys } from '../file-cache.ts';
import { asksOf, type Scope } from '../resolve.ts';
import { readPath } from '../tree.ts';
import { readVirtualFile, type VirtualFile } from './file.ts';
import { isVirtualSameEverywhere, resolveVirtual, virtualDigest } from './resolve.ts';

/** The node that files are resolved for. */
export interface VirtualScope {
  readonly profile: ProfileFile;
  readonly scope: Omit<Scope, 'family'>;
}

/** `.ipset`, `.ipvs` and `.nft` files: a profile has only those of its mode. */
export const virtualFileFormat: FileFormat<VirtualFile, ResolvedVirtualFile, VirtualScope> = {
  read: (path, text) => {
    const what = readPath(path);
    const isKnown = what?.kind === 'base' || what?.kind === 'service';
    if (!isKnown || (what.tool !== 'ipset' && what.tool !== 'ipvs' && what.tool !== 'nft'))
      return { problems: [refusedLine(path, 1, 'the format has no such file')] };
    const file = readVirtualFile(path, what.tool, what.kind, text);
    return 'lines' in file ? { value: file } : { problems: file };
  },
  isSameEverywhere: isVirtualSameEverywhere,
  asksOf: ({ lines }) => asksOf(lines),
  resolve: (path, file, { scope, profile }) => {
    const mode = path.endsWith('.nft') ? 'nftables' : 'ipvs';
    if (profile.mode !== mode) return { problems: [refusedLine(path, 1, `the profile is not in mode ${mode}`)] };
    const resolved = resolveVirtual(file, scope, profile.families);
    return 'lines' in resolved ? { value: resolved } : { problems: resolved };
  },
  refuse: () => [],
  // Of mode ipvs all files are read at each change.
  released: (resolved, again) => (resolved.path.endsWith('.nft') ? new ReleasedFile(resolved, again) : resolved),
  keysOf: perObject(({ scope, profile }: VirtualScope) =>
    scopeKeys(scope, JSON.stringify([profile.mode, scope.profileValues, profile.families])),
  ),
  digestOf: virtualDigest,
};

/** A resolved file whose lines are in memory while they are used: those of 10,000 Services with five endpoints take 25 MB. */
class ReleasedFile implements ResolvedVirtualFile {
  readonly path: string;
  readonly #again: () => ResolvedVirtualFile;
  #lines: WeakRef<ResolvedVirtualFile['lines']>;

  constructor({ path, lines }: ResolvedVirtualFile, again: () => ResolvedVirtualFile) {
    this.path = path;
    this.#again = again;
    this.#lines = new WeakRef(lines);
  }

  get lines(): ResolvedVirtualFile['lines'] {
    const known = this.#lines.deref();
    if (known) return known;
    const { lines } = this.#again();
    this.#lines = new WeakRef(lines);
    return lines;
  }
}
