import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';

const notRegular = 'it is not a regular file';

/**
 * Reads a file of an untrusted directory: links are not followed, and pipes, devices and oversized files cannot block.
 * @returns its bytes, undefined for a missing file, or in words why it was not read
 * @throws errors of the file system
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
 * The text of such a file of any size; undefined for a missing or irregular file.
 * @throws errors of the file system
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
    // ELOOP: a link; ENXIO: a socket.
    if (code === 'ELOOP' || code === 'ENXIO') return notRegular;
    throw error;
  }
}
