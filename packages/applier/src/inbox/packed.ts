import { deflateRawSync, inflateRawSync } from 'node:zlib';
import type { TextSource } from '@sluice/bundle';
import { limits } from '../limits.ts';

/** Typical contents of Service files, as a dictionary for compression. */
const usual = Buffer.from(`\
# endpoint http 10.244.0.10:8080 node-0000 zone-0
*filter
-A KUBE-EXTERNAL-SERVICES -m comment --comment "ns/svc:http has no endpoints" -m addrtype --dst-type LOCAL -j REJECT
*nat
:KUBE-EXT- - [0:0]
:KUBE-SVC- - [0:0]
:KUBE-SEP- - [0:0]
-A KUBE-NODEPORTS -m comment --comment ns/svc:http -m tcp -p tcp --dport 30080 -j KUBE-EXT-
-A KUBE-SERVICES -m comment --comment "ns/svc:http cluster IP" -m udp -p udp -d 10.96.0.10 --dport 53 -j KUBE-SVC-
-A KUBE-SERVICES -m comment --comment "ns/svc:http cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 80 -j KUBE-SVC-
 --dport 80 ! -s \${profile.clusterCIDR} -j KUBE-MARK-MASQ
-A KUBE-SVC- -m comment --comment "ns/svc:http -> 10.244.0.10:8080" -m statistic --mode random --probability 0.2000000000 -j KUBE-SEP-
:8080" -m statistic --mode random --probability 0.2500000000 -j KUBE-SEP-
:8080" -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-
:8080" -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-
:8080" -j KUBE-SEP-
-A KUBE-SEP- -m comment --comment ns/svc:http -s 10.244.0.10 -j KUBE-MARK-MASQ
-A KUBE-SEP- -m comment --comment ns/svc:http -m tcp -p tcp -j DNAT --to-destination 10.244.0.10:8080
COMMIT
`);

/** Files of a bundle have a few kilobytes. A higher level saves little more. */
const compression = { level: 1, memLevel: 4, windowBits: 13, dictionary: usual } as const;

/**
 * Texts that are compressed together. One for each text would be a compressor for each, which keeps 2 kB outside of the heap until the next
 * collection of all of it, and that memory cannot be returned when other pieces of it are in use: 15 MB of 10,000 Services.
 *
 * It stays until none of its texts is in use, so where single files change the texts take some twice as much; they take little.
 */
class Block {
  /** Compressed bytes, one character for each. */
  readonly #packed: string;

  constructor(bytes: Buffer) {
    this.#packed = deflateRawSync(bytes, compression).toString('latin1');
  }

  /** Decompressed; the one that was read last is kept, since files are read in the order of their paths. */
  get bytes(): Buffer {
    if (lastRead?.block === this) return lastRead.bytes;
    const bytes = inflateRawSync(Buffer.from(this.#packed, 'latin1'), { dictionary: usual });
    lastRead = { block: this, bytes };
    return bytes;
  }
}

let lastRead: { readonly block: Block; readonly bytes: Buffer } | undefined;

/**
 * A text that is kept compressed to a seventh of its size. Files of a bundle are read once, when they change, and kept, so that later
 * readers get what was hashed, whatever happens to the file: 28 MB of 10,000 Services become 4 MB. Large files are not compressed: other
 * users' files must not cost time.
 *
 * Compressing takes longer than reading, so it waits for `packWhenIdle`.
 */
export class PackedText implements TextSource {
  readonly key: string;
  readonly isPacked = true;
  #text: string | undefined;
  #block: Block | undefined;
  #from = 0;
  #to = 0;

  /** @param digest of the bytes */
  constructor(bytes: Buffer, digest: string) {
    this.key = digest;
    this.#text = bytes.toString('utf8');
    if (bytes.length <= limits.packedBytesMax) keepUnpacked(this, bytes.length);
  }

  /** Decompressed on each call, once it is packed. */
  get text(): string {
    return this.#text ?? this.#block?.bytes.toString('utf8', this.#from, this.#to) ?? '';
  }

  /** Compresses texts together, of which none was compressed before. */
  static pack(texts: readonly PackedText[]): void {
    const parts = texts.map((text) => Buffer.from(text.#text ?? ''));
    const block = new Block(Buffer.concat(parts));
    let at = 0;
    for (const [index, text] of texts.entries()) {
      text.#block = block;
      text.#from = at;
      text.#to = at += parts[index]?.length ?? 0;
      text.#text = undefined;
    }
  }
}

/** Read, and not packed yet: each text with the length of its bytes. */
const unpacked = new Map<PackedText, number>();
let unpackedBytes = 0;
let next: NodeJS.Timeout | undefined;

/** A bundle may have half a gigabyte: beyond a bound texts are packed at once. */
function keepUnpacked(text: PackedText, bytes: number): void {
  if (unpackedBytes + bytes > limits.unpackedBytesMax) return PackedText.pack([text]);
  unpacked.set(text, bytes);
  unpackedBytes += bytes;
}

/** Packs some texts, and at least one. @returns whether others are left */
export function packSome(): boolean {
  for (let left: number = limits.packedAtOnceBytes; left > 0 && unpacked.size > 0; ) left -= packBlock();
  return unpacked.size > 0;
}

/** Packs the next texts together. @returns the length of their bytes, and one for each */
function packBlock(): number {
  const texts: PackedText[] = [];
  let length = 0;
  for (const [text, bytes] of unpacked) {
    if (texts.length > 0 && length + bytes >= limits.packedTogetherBytes) break;
    texts.push(text);
    length += bytes + 1;
    unpackedBytes -= bytes;
  }
  for (const text of texts) unpacked.delete(text);
  PackedText.pack(texts);
  return length;
}

/** Packs all texts, a few at a time: a change waits some milliseconds for them. Does not keep the process alive. */
export function packWhenIdle(): void {
  if (unpacked.size === 0) return;
  next ??= setTimeout(() => {
    next = undefined;
    if (packSome()) packWhenIdle();
    else lastRead = undefined;
  }, limits.packPauseMs).unref();
}
