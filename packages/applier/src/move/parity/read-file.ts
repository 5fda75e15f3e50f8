import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { certificateLimits } from '@sluice/bundle';

/**
 * Reads a small file of an untrusted place: links are not followed, pipes and devices do not block.
 * @returns undefined for a missing, irregular or oversized file
 */
export function readSmallFile(path: string, bytesMax: number = certificateLimits.bytesMax): string | undefined {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const stats = fstatSync(fd);
    return stats.isFile() && stats.size <= bytesMax ? readFileSync(fd, 'latin1') : undefined;
  } catch {
    return undefined;
  } finally {
    closeSync(fd);
  }
}

/** The id of this boot, as the kernel prints it. */
export const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
