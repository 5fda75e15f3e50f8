import { closeSync, openSync, readFileSync, readSync } from 'node:fs';

/** An open file or directory, which the end of its block closes. */
export interface OpenFile extends Disposable {
  readonly fd: number;
}

/** @param flags as of open(2) @param mode of a file that this makes @throws the error of the system */
export function openFile(path: string, flags: string | number, mode?: number): OpenFile {
  const fd = openSync(path, flags, mode);
  return { fd, [Symbol.dispose]: () => closeSync(fd) };
}

/** The first bytes of a file. One that grows meanwhile has more, one that shrinks gives fewer. @param size how many */
export function readUpTo(fd: number, size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  let length = 0;
  while (length < size) {
    const read = readSync(fd, bytes, length, size - length, length);
    if (read === 0) break;
    length += read;
  }
  return bytes.subarray(0, length);
}

/** What `read` returns, or undefined where its file or directory is missing. Other errors are thrown. */
export function unlessMissing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The text of a file; undefined where it cannot be read. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
