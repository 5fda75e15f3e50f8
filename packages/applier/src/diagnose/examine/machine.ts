import { accessSync, constants, readdirSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { release } from 'node:os';
import { dirname, join } from 'node:path';
import type { ClockFacts, DesiredFacts, DiskFacts, ModuleFacts } from '../doctor/facts.ts';
import type { Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import { bounds } from './bounds.ts';

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

/**
 * The modules that can be loaded; undefined where the kernel has loaded none, or their folder cannot be seen, as in most containers.
 */
export function readModules(): ModuleFacts | undefined {
  try {
    if (readFileSync('/proc/modules', 'utf8') === '') return undefined;
    return { release: release(), installed: readdirSync('/lib/modules').toSorted().slice(0, bounds.modules) };
  } catch {
    return undefined;
  }
}

const versioned = ['nft', 'iptables', 'ip6tables', 'conntrack', 'ipvsadm', 'ip'] as const;

/** What runs here, by name: a tool that is not installed is left out. */
export async function readVersions(run: Run): Promise<ReadonlyMap<string, string>> {
  const found = new Map([['Linux', release()]]);
  const versionOf = async (name: (typeof versioned)[number]): Promise<void> => {
    const file = findTool(name);
    if (file === undefined) return;
    const args = [name === 'ip' ? '-V' : '--version'];
    const { exitCode, stdout, why } = await run({ file, args, timeoutMs: bounds.toolMs, outputBytesMax: 4096 });
    found.set(name, exitCode === 0 ? (stdout.split('\n')[0] ?? '') : why);
  };
  await Promise.all(versioned.map(versionOf));
  return found;
}
