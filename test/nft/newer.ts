import { chmodSync, existsSync, renameSync, writeFileSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { debianRoot } from './debian.ts';

/** The path of an nft, or why there is none. */
export type NftPath = { readonly path: string } | { readonly lack: string };

/** The versions of nft that tests run with: that of the machine, and a newer one. */
export const nftVersions = atTier<readonly NftVersion[]>({ quick: ['own'], all: ['own', 'newer'] });
export type NftVersion = 'own' | 'newer';

const own = '/usr/sbin/nft';

export function nftOf(version: NftVersion): NftPath {
  return version === 'own' ? { path: own } : newerNft();
}

/** Shell text that puts an nft in place of the machine's, in a mount namespace: as `SluicedNode.make` takes it. */
export function inPlace(nft: NftPath): string {
  return 'path' in nft && nft.path !== own ? `mount --bind ${nft.path} ${own} &&` : '';
}

/**
 * Finds or fetches nft 1.1.3 of Debian 13.
 * @returns a program that runs like `nft`, with the libraries that it was built for
 */
export function newerNft(): NftPath {
  const found = debianRoot('nft', ['nftables', 'libc6']);
  if ('lack' in found) return found;
  const { root } = found;
  const path = `${root}/nft`;
  if (existsSync(path)) return { path };
  const libraries = `${root}/usr/lib/x86_64-linux-gnu`;
  const script = `#!/bin/sh\nexec ${libraries}/ld-linux-x86-64.so.2 --library-path ${libraries} ${root}/usr/sbin/nft "$@"\n`;
  // Another process may run it already.
  const fresh = `${path}-${process.pid}`;
  writeFileSync(fresh, script);
  chmodSync(fresh, 0o755);
  renameSync(fresh, path);
  return { path };
}
