import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';

const notRegular = 'it is no regular file';

/**
 * Reads a file of a directory that others may have filled: a link, a pipe, a device or a giant in its place neither leads elsewhere
 * nor keeps us waiting.
 * @returns its bytes, undefined when nothing is there, or in words why it is not read
 * @throws what the file system throws
 */
export function readRegular(path: string, bytesMax: number): Buffer | string | undefined {
  return withRegular(path, (fd) => {
    const bytes = Buffer.alloc(bytesMax + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(fd, bytes, length, bytes.length - length, null);
    return length > bytesMax ? `it is larger than ${bytesMax} bytes` : bytes.subarray(0, length);
  });
}

/**
 * The text of such a file where its size does not matter; undefined when nothing is there, or no regular file.
 * @throws what the file system throws
 */
export function readRegularText(path: string): string | undefined {
  const read = withRegular(path, (fd) => ({ text: readFileSync(fd, 'utf8') }));
  return typeof read === 'object' ? read.text : undefined;
}

function withRegular<T>(path: string, read: (fd: number) => T): T | string | undefined {
  const fd = open(path);
  if (typeof fd !== 'number') return fd;
  try {
    return fstatSync(fd).isFile() ? read(fd) : notRegular;
  } finally {
    closeSync(fd);
  }
}

function open(path: string): number | string | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    // A link, and a socket.
    if (code === 'ELOOP' || code === 'ENXIO') return notRegular;
    throw error;
  }
}
