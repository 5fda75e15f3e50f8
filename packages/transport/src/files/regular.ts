import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';

type Links = 'followed' | 'refused';
const notRegular = 'it is not a regular file';

/**
 * Reads a file of an untrusted directory: links are not followed, and pipes, devices and oversized files cannot block.
 * @param links whether links to files are followed: the directory is trusted
 * @returns its bytes, undefined for a missing file, or in words why it was not read
 * @throws errors of the file system
 */
export function readRegular(path: string, bytesMax: number, links: Links = 'refused'): Buffer | string | undefined {
  return withRegular(path, links, (fd) => {
    let bytes = Buffer.alloc(Math.min(fstatSync(fd).size, bytesMax) + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length <= bytesMax; length += read) {
      // It has grown, or has no size, as in /proc.
      if (length === bytes.length) bytes = Buffer.concat([bytes], Math.min(2 * length, bytesMax + 1));
      read = readSync(fd, bytes, length, bytes.length - length, null);
    }
    return length > bytesMax ? `it is larger than ${bytesMax} bytes` : bytes.subarray(0, length);
  });
}

/**
 * The text of such a file of any size; undefined for a missing or irregular file.
 * @throws errors of the file system
 */
export function readRegularText(path: string): string | undefined {
  const read = withRegular(path, 'refused', (fd) => ({ text: readFileSync(fd, 'utf8') }));
  return typeof read === 'object' ? read.text : undefined;
}

function withRegular<T>(path: string, links: Links, read: (fd: number) => T): T | string | undefined {
  const fd = open(path, links === 'followed' ? 0 : constants.O_NOFOLLOW);
  if (typeof fd !== 'number') return fd;
  try {
    return fstatSync(fd).isFile() ? read(fd) : notRegular;
  } finally {
    closeSync(fd);
  }
}

function open(path: string, flags: number): number | string | undefined {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | flags);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    // ELOOP: a link; ENXIO: a socket.
    if (code === 'ELOOP' || code === 'ENXIO') return notRegular;
    throw error;
  }
}
