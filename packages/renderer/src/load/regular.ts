import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';

/**
 * Reads a file of a directory that others may have filled: a link, a pipe, a device or a giant in its place neither leads elsewhere
 * nor keeps us waiting.
 * @returns its bytes, undefined when nothing is there, or in words why it is not read
 * @throws what the file system throws
 */
export function readRegular(path: string, bytesMax: number): Buffer | string | undefined {
  const fd = openRegular(path);
  if (typeof fd !== 'number') return fd;
  try {
    if (!fstatSync(fd).isFile()) return 'it is no regular file';
    const bytes = Buffer.alloc(bytesMax + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < bytes.length; length += read)
      read = readSync(fd, bytes, length, bytes.length - length, null);
    return length > bytesMax ? `it is larger than ${bytesMax} bytes` : bytes.subarray(0, length);
  } finally {
    closeSync(fd);
  }
}

function openRegular(path: string): number | string | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    // A link, and a socket.
    if (code === 'ELOOP' || code === 'ENXIO') return 'it is no regular file';
    throw error;
  }
}
