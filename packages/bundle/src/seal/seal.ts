import { hash } from 'node:crypto';
import { compareText } from '@sluice/netfilter';
import { isOutsideTree } from '../tree.ts';

/** SHA-256 of a file's bytes, lower-case hex. */
export function fileDigest(content: string | Uint8Array): string {
  return hash('sha256', content, 'hex');
}

/**
 * The text of `SHA256SUMS` for a tree.
 * @param digests path → file digest; paths outside the tree are ignored
 */
export function sumsText(digests: ReadonlyMap<string, string>): string {
  return [...digests]
    .filter(([path]) => !isOutsideTree(path))
    .toSorted(([a], [b]) => compareText(a, b))
    .map(([path, digest]) => `${digest}  ${path}\n`)
    .join('');
}

/** The digest of a whole tree. README.md, "Digests". */
export function treeDigest(digests: ReadonlyMap<string, string>): string {
  return fileDigest(sumsText(digests));
}

/** The content of `.sluice-complete`. */
export function completeText(digests: ReadonlyMap<string, string>): string {
  return `sha256:${treeDigest(digests)}\n`;
}
