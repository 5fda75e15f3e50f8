import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Replaces a file whole: whoever reads it meanwhile sees the old one or the new one, and a disk that is full leaves the old one.
 * What is beside it until then has a name that readers of bundles pass over; a link that somebody
 * put under that name is not followed.
 * @throws what the file system throws
 */
export function replaceFile(path: string, bytes: Uint8Array): void {
  const temporary = join(dirname(path), `.sluice-${process.pid}.tmp`);
  try {
    rmSync(temporary, { force: true });
    writeFileSync(temporary, bytes, { flag: 'wx', flush: true });
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
}
