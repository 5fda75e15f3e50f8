import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { bundleLimits, isReleaseFile } from '../names.ts';
import { type Problem, refusal } from '@sluice/netfilter';
import { readPath } from '../tree.ts';
import { printTar, readTar } from './tar.ts';

/** The limits of an archive. README.md, "Archives". */
export const archiveLimits = {
  /** Packed. */
  archiveBytesMax: 256 * 1024 * 1024,
  /** Unpacked: the files of the largest bundle, each with a header and padding. */
  tarBytesMax: bundleLimits.treeBytesMax + bundleLimits.filesMax * 1024,
  /** Unpacked bytes per packed byte; rule files of ten thousand Services reach 30. */
  ratioMax: 250,
  /** Unpacked bytes that any archive may have, however small it is. */
  ratioFreeBytes: 16 * 1024 * 1024,
} as const;

/** In an archive of changes: the digest of the base's `SHA256SUMS`. Never in a bundle directory. */
const baseDigestFile = '.sluice-base';

/** The files of a release, or of the part that one node needs. */
export interface Archive {
  /** Path → text. */
  readonly files: ReadonlyMap<string, string>;
  /** Of changes: the digest of the base's `SHA256SUMS`. */
  readonly base?: string;
}

/** What an archive may contain. */
export interface ArchiveKind {
  readonly isWanted: (path: string) => boolean;
  /** Unpacked. */
  readonly bytesMax: number;
}

const ofRelease: ArchiveKind = { isWanted: isArchived, bytesMax: archiveLimits.tarBytesMax };

/** A higher level takes four times as long for the last 8 percent. */
const compressionLevel = 12;

/** The bytes of an archive: the same files give the same bytes on every machine. */
export function printArchive({ files, base }: Archive): Uint8Array {
  const all = new Map([...files].map(([path, text]) => [path, Buffer.from(text)]));
  if (base !== undefined) all.set(baseDigestFile, Buffer.from(`sha256:${base}\n`));
  const { ZSTD_c_compressionLevel, ZSTD_c_checksumFlag } = constants;
  return zstdCompressSync(printTar(all), {
    params: { [ZSTD_c_compressionLevel]: compressionLevel, [ZSTD_c_checksumFlag]: 1 },
  });
}

/**
 * Reads an untrusted archive. Digests and signatures of its files are checked elsewhere.
 * @param name named in problems
 * @param kind other files than those of a release, as in an archive of receipts
 * @returns its files, or `ARCHIVE_INVALID`
 */
export function readArchive(name: string, packed: Uint8Array, kind: ArchiveKind = ofRelease): Archive | Problem {
  const tar = unpack(packed, kind.bytesMax);
  if (typeof tar === 'string') return invalid(name, tar);
  const entries = readTar(tar, kind.isWanted);
  if (typeof entries === 'string') return invalid(name, entries);
  const files = new Map<string, string>();
  // With the BOM kept, text written to disk has the same digest as the bytes that were read.
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  for (const [path, bytes] of entries) {
    try {
      files.set(path, decoder.decode(bytes));
    } catch {
      return invalid(name, `${path} is not UTF-8`);
    }
  }
  const mark = files.get(baseDigestFile);
  if (mark === undefined) return { files };
  files.delete(baseDigestFile);
  const [, base] = /^sha256:([0-9a-f]{64})\n$/.exec(mark) ?? [];
  return base === undefined ? invalid(name, `${baseDigestFile} contains no digest`) : { files, base };
}

/** Returns the tar inside, or the error in words. The size is limited before the first byte is unpacked. */
function unpack(packed: Uint8Array, bytesMax: number): Buffer | string {
  const { archiveBytesMax, ratioMax, ratioFreeBytes } = archiveLimits;
  if (packed.length > archiveBytesMax) return `it is larger than ${archiveBytesMax} bytes`;
  const maxOutputLength = Math.min(bytesMax, ratioFreeBytes + ratioMax * packed.length);
  try {
    const { buffer, engine } = zstdDecompressSync(packed, { maxOutputLength, info: true }) as unknown as {
      readonly buffer: Buffer;
      readonly engine: { readonly bytesWritten: number };
    };
    return engine.bytesWritten === packed.length ? buffer : 'it has trailing data';
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ERR_BUFFER_TOO_LARGE') return `it unpacks to more than ${maxOutputLength} bytes`;
    return code === 'Z_BUF_ERROR' ? 'it is truncated' : `it is not a zstd archive (${message})`;
  }
}

function isArchived(path: string): boolean {
  return readPath(path) !== undefined || isReleaseFile(path) || path === baseDigestFile;
}

const invalid = (name: string, why: string): Problem =>
  refusal(
    'ARCHIVE_INVALID',
    `Cannot read the archive ${name}: ${why}`,
    'Fetch it again, and compare its digest with that of the original; `sluice pack` makes archives',
  );
