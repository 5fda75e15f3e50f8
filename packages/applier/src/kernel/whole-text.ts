import { closeSync, fstatSync, ftruncateSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Texts are written whole or not at all: most tools take the beginning of a text for a text. `write(2)` may write a part of what it is given
 * and report no error, as on a file system that becomes full.
 */

/** The calls of `writeAll`, for tests. */
interface Writes {
  writeSync(fd: number, bytes: Buffer, offset: number, length: number, position: number | null): number;
}

/**
 * Writes all of a text to a file.
 * @param position in the file, in bytes, and the file's own position stays; null: at the file's own position
 * @throws the error of the disk; a part of it may be in the file then
 */
export function writeAll(
  fd: number,
  text: string | Buffer,
  position: number | null = null,
  disk: Writes = { writeSync },
): void {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  for (let at = 0; at < bytes.length; ) {
    const written = disk.writeSync(fd, bytes, at, bytes.length - at, position === null ? null : position + at);
    if (written <= 0) throw new Error(`only ${at} of ${bytes.length} bytes could be written`);
    at += written;
  }
}

/**
 * Replaces the content of a file that a tool reads next.
 * @throws when it does not hold all of the text; it is empty then
 */
export function fill(fd: number, text: string, disk?: Writes): void {
  try {
    ftruncateSync(fd, 0);
    writeAll(fd, text, 0, disk);
    const [size, length] = [fstatSync(fd).size, Buffer.byteLength(text)];
    if (size !== length) throw new Error(`it holds ${size} of ${length} bytes`);
  } catch (error) {
    ftruncateSync(fd, 0);
    throw error;
  }
}

/**
 * A file without a name, which ends with its descriptors, and which no other process can change: in memory under systemd, so that a full
 * disk stops no change.
 */
export function openNameless(): number {
  const folder = mkdtempSync(join(process.env['RUNTIME_DIRECTORY'] ?? tmpdir(), 'text-'));
  try {
    return openSync(join(folder, 'text'), 'w+', 0o600);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @returns a nameless file that holds a text, to be closed; undefined where there is no room for it */
export function namelessWith(text: string): number | undefined {
  let fd: number | undefined;
  try {
    fd = openNameless();
    fill(fd, text);
    return fd;
  } catch {
    if (fd !== undefined) closeSync(fd);
    return undefined;
  }
}
