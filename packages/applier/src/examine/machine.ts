import { accessSync, constants, readdirSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ClockFacts, DesiredFacts, DiskFacts } from '../doctor/facts.ts';
import { findTool } from '../kernel/tools.ts';

/** The file system of the state directory, or of the nearest directory above it that exists. @throws Error when it cannot be read */
export function readDisk(path: string): DiskFacts {
  try {
    const { bavail, bsize, ffree, files } = statfsSync(path);
    return { path, freeBytes: bavail * bsize, freeInodes: ffree, inodes: files, isReadOnly: isReadOnly(path) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || path === '/') throw error;
    return readDisk(dirname(path));
  }
}

function isReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EROFS';
  }
}

/** @throws Error when the state directory cannot be read */
export function readClock(state: string): ClockFacts {
  const times = readdirSync(state).map((name) => statSync(join(state, name)).mtimeMs);
  return { nowMs: Date.now(), stateMs: Math.max(0, ...times) };
}

/** Tools without which the mode does not work on this node. */
export function missingTools(mode: DesiredFacts['mode'], store: DesiredFacts['store']): readonly string[] {
  const needed = {
    iptables: [`iptables-${store}-save`, `iptables-${store}-restore`],
    ipvs: ['ipvsadm', 'ipset', 'ip'],
    nftables: ['nft'],
  } as const;
  const plain = (name: string): string => name.replace(/-(?:nft|legacy)-/, '-');
  return needed[mode].filter((name) => findTool(name) === undefined && findTool(plain(name)) === undefined);
}
