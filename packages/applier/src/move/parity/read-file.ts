import { constants, fstatSync, readFileSync } from 'node:fs';
import { certificateLimits } from '@sluice/bundle';
import { openFile } from '../../kernel/open-file.ts';

/**
 * Reads a small file of an untrusted place: links are not followed, pipes and devices do not block.
 * @returns undefined for a missing, irregular or oversized file
 */
export function readSmallFile(path: string, bytesMax: number = certificateLimits.bytesMax): string | undefined {
  try {
    using file = openFile(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const stats = fstatSync(file.fd);
    return stats.isFile() && stats.size <= bytesMax ? readFileSync(file.fd, 'latin1') : undefined;
  } catch {
    return undefined;
  }
}

/** The id of this boot, as the kernel prints it. */
export const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim();
