import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { compareText, differing, Layered } from '@sluice/netfilter';

/** A file's text, which may be unpacked at each access. */
export interface TextSource {
  /** Equal for equal texts, such as a digest; compared instead of the text. */
  readonly key: string;
  readonly text: string;
  /** It takes less memory than what is read of it, which need not be kept. */
  readonly isPacked?: boolean;
}

/** Files whose texts are not all in memory: path → text, with keys to recognise unchanged texts. */
interface SourcedFiles extends ReadonlyMap<string, string> {
  /** By path. An unchanged file keeps the identity of its source. */
  readonly sources: ReadonlyMap<string, TextSource>;
}

/** The files of a bundle, or those that one node needs: path → text. */
export type BundleFiles = ReadonlyMap<string, string> & Partial<Pick<SourcedFiles, 'sources'>>;

/** Files by their sources, in the order of their paths. */
export class SourceFiles implements SourcedFiles {
  readonly sources: ReadonlyMap<string, TextSource>;

  /** @param sources must not change afterwards */
  constructor(sources: ReadonlyMap<string, TextSource>) {
    this.sources = sources;
  }

  get size(): number {
    return this.sources.size;
  }

  get(path: string): string | undefined {
    return this.sources.get(path)?.text;
  }

  has(path: string): boolean {
    return this.sources.has(path);
  }

  *keys(): MapIterator<string> {
    yield* [...this.sources.keys()].toSorted(compareText);
  }

  *entries(): MapIterator<[string, string]> {
    for (const path of this.keys()) yield [path, this.get(path) ?? ''];
  }

  *values(): MapIterator<string> {
    for (const [, text] of this.entries()) yield text;
  }

  [Symbol.iterator](): MapIterator<[string, string]> {
    return this.entries();
  }

  forEach(callback: (text: string, path: string, files: ReadonlyMap<string, string>) => void): void {
    for (const [path, text] of this.entries()) callback(text, path, this);
  }
}

/** The source of a path; undefined for a missing file. */
export function sourceOf(files: BundleFiles, path: string): TextSource | undefined {
  if (files.sources) return files.sources.get(path);
  const text = files.get(path);
  return text === undefined ? undefined : { key: text, text };
}

/** The paths of files that were added, removed or changed. */
export function changedFiles(before: BundleFiles, now: BundleFiles): readonly string[] {
  if (!before.sources || !now.sources) return differing(before, now);
  const [old, updated] = [before.sources, now.sources];
  return differing(old, updated).filter((path) => old.get(path)?.key !== updated.get(path)?.key);
}

/**
 * A bundle with some of its files replaced by those of another one; files that the other one lacks are removed.
 * @param paths of the files to replace
 */
export function withFilesOf(files: BundleFiles, other: BundleFiles, paths: readonly string[]): BundleFiles {
  const replaced = <V>(map: ReadonlyMap<string, V>, from: ReadonlyMap<string, V>): ReadonlyMap<string, V> =>
    Layered.of(map).with(paths.map((path) => [path, from.get(path)] as const));
  if (!files.sources || !other.sources) return replaced(files, other);
  return new SourceFiles(replaced(files.sources, other.sources));
}

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

/** Texts are compressed together up to this many bytes, some 20 files of Services: reading one unpacks all of these, in 0.2 ms. */
const togetherMax = 48 * 1024;

/**
 * Texts that are compressed together. One for each text would be a compressor for each, which keeps 2 kB outside of the heap until the next
 * collection of all of it, and that memory cannot be returned when other pieces of it are in use: 15 MB of 10,000 Services.
 *
 * It stays until none of its texts is in use, so where single files change the texts take some twice as much; they take little.
 */
class Block {
  /** Compressed bytes, one character for each. */
  readonly #packed: string;
  #read: WeakRef<Buffer> | undefined;

  constructor(bytes: Buffer) {
    this.#packed = deflateRawSync(bytes, compression).toString('latin1');
  }

  /** Decompressed: once in a turn of the event loop, as a weak reference holds until its end. Who reads all texts may do so in any order. */
  get bytes(): Buffer {
    const known = this.#read?.deref();
    if (known) return known;
    const bytes = inflateRawSync(Buffer.from(this.#packed, 'latin1'), { dictionary: usual });
    this.#read = new WeakRef(bytes);
    return bytes;
  }
}

/** One text of a block. */
class BlockText implements TextSource {
  readonly isPacked = true;
  readonly #block: Block;
  readonly #from: number;
  readonly #to: number;

  /** @param from, to its bytes in the block */
  constructor(block: Block, from: number, to: number) {
    this.#block = block;
    this.#from = from;
    this.#to = to;
  }

  get key(): string {
    return this.text;
  }

  get text(): string {
    return this.#block.bytes.toString('utf8', this.#from, this.#to);
  }
}

/**
 * Compresses texts to about a seventh of their size, several together.
 * @param texts of whole code points: what no UTF-8 has would not stay the same
 * @returns each of them, in this order
 */
export function packTexts(texts: readonly string[]): readonly TextSource[] {
  const packed: TextSource[] = [];
  let [parts, length]: [Buffer[], number] = [[], 0];
  const pack = (): void => {
    const block = new Block(Buffer.concat(parts));
    let from = 0;
    for (const part of parts) packed.push(new BlockText(block, from, (from += part.length)));
    [parts, length] = [[], 0];
  };
  for (const text of texts) {
    const part = Buffer.from(text);
    // So a long text has no neighbours: who reads them would unpack it, too.
    if (length > 0 && length + part.length > togetherMax) pack();
    parts.push(part);
    length += part.length;
  }
  pack();
  return packed;
}
