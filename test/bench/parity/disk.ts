// What the disk does besides a round. A start of Sluice writes a file for each Service, so it meets work that the disk has left.
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

/**
 * Waits until everything on the disk of a directory is written. An ext4 without a journal does not give the inode of a deleted file to
 * another one for a minute, for six minutes while the deletion is not written (`recently_deleted` in `fs/ext4/ialloc.c`), and skips
 * all of them for each new file: 10,000 files took ten times as long after 40,000 deletions. So no round deletes its files, either.
 */
export async function quietDisk(dir: string): Promise<void> {
  await promisify(execFile)('/usr/bin/sync', ['-f', dir]);
}

/** Processor time of 1,000 new files, in milliseconds. @param dir does not exist yet */
export function filesCost(dir: string): number {
  mkdirSync(dir);
  const before = process.cpuUsage();
  for (let n = 0; n < 1_000; n++) writeFileSync(join(dir, String(n)), 'x'.repeat(700));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
