import { packTexts, type TextSource } from '@sluice/bundle';
import { limits } from '../limits.ts';

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
  #packed: TextSource | undefined;

  /** @param digest of the bytes */
  constructor(bytes: Buffer, digest: string) {
    this.key = digest;
    this.#text = bytes.toString('utf8');
    if (bytes.length <= limits.packedBytesMax) keepUnpacked(this, bytes.length);
  }

  /** Decompressed once it is packed. */
  get text(): string {
    return this.#text ?? this.#packed?.text ?? '';
  }

  /** Compresses texts, of which none was compressed before. */
  static pack(texts: readonly PackedText[]): void {
    const packed = packTexts(texts.map((text) => text.#text ?? ''));
    for (const [index, text] of texts.entries()) {
      text.#packed = packed[index];
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
  const texts: PackedText[] = [];
  let left: number = limits.packedAtOnceBytes;
  for (const [text, bytes] of unpacked) {
    if (left <= 0) break;
    texts.push(text);
    left -= bytes + 1;
    unpackedBytes -= bytes;
  }
  for (const text of texts) unpacked.delete(text);
  PackedText.pack(texts);
  return unpacked.size > 0;
}

/** Packs all texts, a few at a time: a change waits some milliseconds for them. Does not keep the process alive. */
export function packWhenIdle(): void {
  if (unpacked.size === 0) return;
  next ??= setTimeout(() => {
    next = undefined;
    if (packSome()) packWhenIdle();
  }, limits.packPauseMs).unref();
}
