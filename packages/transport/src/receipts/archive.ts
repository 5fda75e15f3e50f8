import {
  type ArchiveKind,
  fileDigest,
  isProblem,
  printArchive,
  readArchive,
  readReceiptName,
  type Receipt,
  receiptFile,
  receiptLimits,
  releaseLimits,
} from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import { receiptTransportLimits } from './limits.ts';

// The receipts of a node travel as one archive with its newest ones, so that a reader asks once for each node and lists nothing:
// packages/bundle/README.md, "Receipts in transport".

/** A receipt with its signature; nothing of it is verified. */
export interface CarriedReceipt {
  readonly number: Receipt['number'];
  readonly text: string;
  /** Undefined: it is missing. */
  readonly signature: string | undefined;
}

const signatureOf = (file: string): string => `${file}.sig`;
const { receiptsMax, unpackedBytesMax } = receiptTransportLimits;

/**
 * Packs the newest receipts of a node, as many as the bounds allow. The same receipts give the same bytes.
 * @param receipts of the node, in any order; one without a signature is left out, because it is no evidence
 * @returns the archive, and how many are in it; undefined: there is none to send
 */
export function packReceipts(
  node: string,
  receipts: readonly CarriedReceipt[],
): { readonly archive: Uint8Array; readonly count: number } | undefined {
  const files = new Map<string, string>();
  let bytes = 0;
  let count = 0;
  for (const { number, text, signature } of receipts.toSorted((a, b) => b.number - a.number)) {
    if (signature === undefined) continue;
    // A header and padding for each file, and the end of the archive.
    bytes += text.length + signature.length + 2 * 1024;
    if (count === receiptsMax || bytes > unpackedBytesMax - 1024) break;
    const file = receiptFile({ node, number });
    files.set(file, text).set(signatureOf(file), signature);
    count++;
  }
  return count === 0 ? undefined : { archive: printArchive({ files }), count };
}

/**
 * Reads an untrusted archive of a node's receipts.
 * @param name of the archive, for the reason
 * @returns its receipts, the newest first; or in words why it is not used
 */
export function unpackReceipts(name: string, node: string, packed: Uint8Array): readonly CarriedReceipt[] | string {
  if (packed.length > receiptTransportLimits.archiveBytesMax)
    return `${name} is larger than ${receiptTransportLimits.archiveBytesMax} bytes`;
  const archive = readArchive(name, packed, kind);
  if (isProblem(archive)) return archive.message;
  const { files } = archive;
  const found: CarriedReceipt[] = [];
  for (const [path, text] of [...files].toSorted(([a], [b]) => compareText(b, a))) {
    const of = readReceiptName(path.replace(/\.sig$/, ''));
    if (of?.node !== node) return `${name} has a receipt of another node, ${of?.node}`;
    const isSignature = path.endsWith('.sig');
    if (text.length > (isSignature ? releaseLimits.signatureBytesMax : receiptLimits.bytesMax))
      return `${path} in ${name} is too large`;
    if (!isSignature) found.push({ number: of.number, text, signature: files.get(signatureOf(path)) });
  }
  return found.slice(0, receiptsMax);
}

const kind: ArchiveKind = {
  isWanted: (path) => readReceiptName(path.replace(/\.sig$/, '')) !== undefined,
  bytesMax: unpackedBytesMax,
};

/** Where the archive of a node is, in every kind of store: `<folder>/<name>`. */
export interface ReceiptPlace {
  /** The first byte of SHA-256 of the node's name, in hex: no folder, namespace of refs or list of tags holds a whole fleet. */
  readonly folder: string;
  /** A valid tag of a registry, file name and component of a ref. No node is called like a hashed name, which has a `_`. */
  readonly name: string;
}

export function placeOf(node: string): ReceiptPlace {
  const digest = fileDigest(node);
  const isName = node.length <= 128 && !node.endsWith('.lock');
  return { folder: digest.slice(0, 2), name: isName ? node : `sha256_${digest}` };
}

/** The relative path of a node's archive, for files and web servers. */
export function archivePath(node: string): string {
  const { folder, name } = placeOf(node);
  return `${folder}/${name}.tar.zst`;
}
