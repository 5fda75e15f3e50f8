import { isLoopback } from '../http/addresses.ts';
import { type Reference, readReference } from '../registry/reference.ts';

/** Where receipts are, as `--from` of `sluice fleet` names it. */
export type ReceiptSpec =
  | { readonly kind: 'oci'; readonly reference: Reference }
  | { readonly kind: 'https'; readonly url: URL }
  /** As git takes it. */
  | { readonly kind: 'git'; readonly url: string }
  | { readonly kind: 'dir'; readonly path: string };

/**
 * Parses `oci://REGISTRY/REPOSITORY`, `https://…`, `git+https://…`, `git+ssh://…`, or the path of a directory.
 * Plain HTTP is for this machine alone.
 * @returns in words why it is none of them
 */
export function readReceiptSpec(text: string): ReceiptSpec | string {
  const [, scheme, rest = ''] = /^([a-z][a-z0-9+]*):\/\/(.*)$/s.exec(text) ?? [];
  if (scheme === undefined) return { kind: 'dir', path: text };
  if (scheme === 'oci') {
    const reference = readReference(rest);
    const isPlain = reference !== undefined && reference.tag === undefined && reference.digest === undefined;
    return isPlain ? { kind: 'oci', reference } : 'it is not of the form oci://REGISTRY/REPOSITORY';
  }
  const address = text.replace(/^git\+/, '');
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || url.search !== '' || url.hash !== '') return 'it is not a URL without a query';
  if (url.password !== '' || (url.username !== '' && scheme !== 'git+ssh'))
    return 'it contains a user or a password, which other users of this machine could read';
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) return 'http is for this machine alone: use https';
  if (scheme === 'https' || scheme === 'http') return { kind: 'https', url };
  if (scheme === 'git+https' || scheme === 'git+http' || scheme === 'git+ssh') return { kind: 'git', url: url.href };
  return `${scheme}:// is none of oci://, https://, git+https:// and git+ssh://`;
}
