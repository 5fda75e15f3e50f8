import { renameSync, rmSync, writeFileSync } from 'node:fs';

/**
 * Replaces a file whole: whoever reads it meanwhile sees the old one or the new one, and a disk that is full leaves the old one.
 * @throws what the file system throws
 */
export function replaceFile(path: string, bytes: Uint8Array): void {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    writeFileSync(temporary, bytes, { flush: true });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
