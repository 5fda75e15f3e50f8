import { compareText } from '@sluice/netfilter';
import { bundleLimits } from '../names.ts';

// One form of tar only: README.md, "Archives". An archive must equal, byte for byte, what `printTar` writes for the same files, which
// excludes links, devices, owners, sparse files and the extensions of other implementations.

const blockBytes = 512;
const end = Buffer.alloc(2 * blockBytes);
const regularFile = '0';
const longPath = 'x';
/** Of a path record; node names and profiles have at most 253 characters. */
const longPathBytesMax = 1024;

/**
 * Writes files as POSIX ustar: sorted, without owners and times.
 * @param files path → bytes; paths are ASCII
 */
export function printTar(files: ReadonlyMap<string, Uint8Array>): Uint8Array {
  const sorted = [...files].toSorted(([a], [b]) => compareText(a, b));
  const parts = sorted.flatMap(([path, bytes]) => [...headersOf(path, bytes.length), bytes, padding(bytes.length)]);
  return Buffer.concat([...parts, end]);
}

/**
 * Reads what `printTar` wrote, within the limits of a bundle.
 * @param isWanted whether a file of this name may be there
 * @returns path → bytes, or the error in words
 */
export function readTar(tar: Buffer, isWanted: (path: string) => boolean): ReadonlyMap<string, Buffer> | string {
  const files = new Map<string, Buffer>();
  let before = '';
  let total = 0;
  for (let at = 0; at < tar.length; ) {
    const entry = readEntry(tar, at);
    if (entry === 'end') return tar.length - at === end.length ? files : 'it has trailing data';
    if (typeof entry === 'string') return entry;
    const { path, bytes } = entry;
    if (!isWanted(path)) return `${shown(path)} is not a file of a release`;
    if (compareText(before, path) >= 0) return `${shown(path)} is out of order or duplicated`;
    total += bytes.length;
    if (total > bundleLimits.treeBytesMax) return `its files exceed ${bundleLimits.treeBytesMax} bytes`;
    if (files.size >= bundleLimits.filesMax) return `it has more than ${bundleLimits.filesMax} files`;
    files.set(path, bytes);
    before = path;
    at = entry.next;
  }
  return cut;
}

const cut = 'it is truncated';

interface TarEntry {
  readonly path: string;
  readonly bytes: Buffer;
  readonly next: number;
}

/** Returns the file at this offset, `end`, or the error in words. */
function readEntry(tar: Buffer, at: number): TarEntry | string {
  if (tar.length - at < blockBytes) return cut;
  if (end.equals(tar.subarray(at, at + end.length))) return 'end';
  const long = readLongPath(tar, at);
  if (typeof long === 'string') return long;
  const start = long?.next ?? at;
  const header = tar.subarray(start, start + blockBytes);
  if (header.length < blockBytes) return cut;
  const path = long?.path ?? shortPath(header);
  const odd = oddType(header, path);
  if (odd !== undefined) return odd;
  const size = sizeOf(header);
  if (size === undefined) return `${shown(path)} has no size`;
  if (size > bundleLimits.fileBytesMax) return `${shown(path)} is larger than ${bundleLimits.fileBytesMax} bytes`;
  const [from, to] = [start + blockBytes, start + blockBytes + size];
  const next = to + padding(size).length;
  if (next > tar.length) return cut;
  if (!isAsWritten(tar.subarray(at, from), headersOf(path, size)) || !padding(size).equals(tar.subarray(to, next)))
    return `the header of ${shown(path)} differs from the form that \`sluice pack\` writes`;
  return { path, bytes: tar.subarray(from, to), next };
}

function isAsWritten(headers: Buffer, wanted: readonly Buffer[]): boolean {
  let at = 0;
  return wanted.every((part) => part.equals(headers.subarray(at, (at += part.length)))) && at === headers.length;
}

/** Reads the extended header of a long path; its form is checked together with the header that follows. */
function readLongPath(tar: Buffer, at: number): { path: string; next: number } | string | undefined {
  const header = tar.subarray(at, at + blockBytes);
  if (typeOf(header) !== longPath) return undefined;
  const size = sizeOf(header) ?? Number.NaN;
  if (!(size <= longPathBytesMax)) return 'it has an extended header that is too long';
  const from = at + blockBytes;
  const [, path] = /^\d+ path=([^\n]+)\n$/.exec(tar.toString('latin1', from, from + size)) ?? [];
  if (path === undefined) return 'it has an extended header with fields other than path';
  return { path, next: from + size + padding(size).length };
}

function oddType(header: Buffer, path: string): string | undefined {
  const type = typeOf(header);
  if (type === regularFile) return undefined;
  return `${shown(path)} is ${oddTypes[type] ?? 'not a regular file'}`;
}

const oddTypes: Readonly<Record<string, string>> = {
  '1': 'a hard link',
  '2': 'a symbolic link',
  '3': 'a device',
  '4': 'a device',
  '5': 'a directory',
  '6': 'a pipe',
  g: 'a global extended header',
  x: 'a second extended header in a row',
  L: 'a long name in the form of GNU tar',
  K: 'a long link in the form of GNU tar',
  S: 'a sparse file',
};

const typeOf = (header: Buffer): string => header.toString('latin1', 156, 157);
const shown = (path: string): string => JSON.stringify(path.length > 300 ? `${path.slice(0, 300)}…` : path);

function sizeOf(header: Buffer): number | undefined {
  const [, digits] = /^([0-7]{11})\0$/.exec(header.toString('latin1', 124, 136)) ?? [];
  return digits === undefined ? undefined : Number.parseInt(digits, 8);
}

function shortPath(header: Buffer): string {
  const field = (from: number, to: number): string => header.toString('latin1', from, to).replace(/\0.*$/s, '');
  const prefix = field(345, 500);
  return `${prefix === '' ? '' : `${prefix}/`}${field(0, 100)}`;
}

/** One header, or two blocks more for a path that is too long for it. */
function headersOf(path: string, size: number): Buffer[] {
  const split = splitPath(path);
  if (split) return [headerOf(split, size, regularFile)];
  const record = Buffer.from(lengthed(` path=${path}\n`), 'latin1');
  const named = { prefix: '', name: path.slice(0, 100) };
  return [
    headerOf({ prefix: '', name: 'path' }, record.length, longPath),
    record,
    padding(record.length),
    headerOf(named, size, regularFile),
  ];
}

/** The record's length counts its own digits. */
function lengthed(rest: string): string {
  const guess = rest.length + String(rest.length).length;
  const length = rest.length + String(guess).length;
  return `${length}${rest}`;
}

interface Split {
  readonly prefix: string;
  readonly name: string;
}

/** ustar has 100 bytes for a name and 155 for the folders above it. */
function splitPath(path: string): Split | undefined {
  if (path.length <= 100) return { prefix: '', name: path };
  const slash = path.indexOf('/', path.length - 101);
  return slash > 0 && slash <= 155 ? { prefix: path.slice(0, slash), name: path.slice(slash + 1) } : undefined;
}

function headerOf({ prefix, name }: Split, size: number, type: string): Buffer {
  const header = Buffer.alloc(blockBytes);
  const put = (text: string, at: number): void => void header.write(text, at, 'latin1');
  put(name, 0);
  put('0000644\x000000000\x000000000\0', 100);
  put(`${size.toString(8).padStart(11, '0')}\0`, 124);
  put('00000000000\0', 136);
  put(' '.repeat(8), 148);
  put(type, 156);
  put('ustar\x0000', 257);
  put('0000000\x000000000\0', 329);
  put(prefix, 345);
  let sum = 0;
  for (const byte of header) sum += byte;
  put(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
}

function padding(size: number): Buffer {
  return end.subarray(0, (blockBytes - (size % blockBytes)) % blockBytes);
}
