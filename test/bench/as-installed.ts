import { closeSync, openSync, readSync, writeSync } from 'node:fs';

/** The pieces in which dpkg and container runtimes write files. */
const pieceBytes = 32 * 1024;

/**
 * Copies an executable as an installation writes it, so that its resident memory is that of a node. On Linux 6.18 a fault in one page
 * maps its whole piece of the page cache, and the pieces are as large as the writes that made them: of a file written by the megabyte, as
 * package managers of JavaScript and linkers do, up to twice as many pages count as resident. After a reboot they are small again.
 * @returns `to`
 */
export function copyAsInstalled(from: string, to: string): string {
  const [source, target] = [openSync(from, 'r'), openSync(to, 'wx', 0o755)];
  try {
    const piece = Buffer.alloc(pieceBytes);
    for (let read = readSync(source, piece); read > 0; read = readSync(source, piece)) {
      for (let at = 0; at < read; ) at += writeSync(target, piece, at, read - at);
    }
  } finally {
    closeSync(source);
    closeSync(target);
  }
  return to;
}
