import { chmodSync, existsSync, renameSync, writeFileSync } from 'node:fs';
import { debianRoot } from './debian.ts';

/** The path of a newer nft, or why there is none. */
export type NewerNft = { readonly path: string } | { readonly lack: string };

/**
 * Finds or fetches nft 1.1.3 of Debian 13.
 * @returns a program that runs like `nft`, with the libraries that it was built for
 */
export function newerNft(): NewerNft {
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
