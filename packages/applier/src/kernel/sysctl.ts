import { accessSync, constants, readFileSync, writeFileSync } from 'node:fs';
import { procPath, type SysctlKey } from '@sluice/netfilter';

/** Reads and writes the few files of /proc and /sys that the applier uses. */
export interface Tunables {
  read(key: SysctlKey): number | undefined;
  write(key: SysctlKey, value: number): void;
  writable(key: SysctlKey): boolean;
  readHashSize(): number | undefined;
  writeHashSize(value: number): void;
}

const hashSizePath = '/sys/module/nf_conntrack/parameters/hashsize';

/** In a container /proc/sys is read-only: the pods of deploy/ have the node's /proc/sys/net in a volume, and name its path. */
const pathOf = (key: SysctlKey): string =>
  procPath(key).replace('/proc/sys/net', (usual) => process.env['SLUICED_PROC_SYS_NET'] ?? usual);

/** The tunables of the network namespace of this process. Paths come from a constant map, never from a text. */
export const procTunables: Tunables = {
  read: (key) => readNumber(pathOf(key)),
  write: (key, value) => writeFileSync(pathOf(key), `${value}\n`),
  writable(key) {
    try {
      accessSync(pathOf(key), constants.W_OK);
      return true;
    } catch {
      return false;
    }
  },
  readHashSize: () => readNumber(hashSizePath),
  writeHashSize: (value) => writeFileSync(hashSizePath, `${value}\n`),
};

/** The entries of conntrack in this network namespace, and their limit; undefined without conntrack. */
export function readConntrackFill(): { readonly entries: number; readonly limit: number } | undefined {
  const entries = readNumber('/proc/sys/net/netfilter/nf_conntrack_count');
  const limit = readNumber(pathOf('net.netfilter.nf_conntrack_max'));
  return entries === undefined || limit === undefined ? undefined : { entries, limit };
}

function readNumber(path: string): number | undefined {
  try {
    const text = readFileSync(path, 'utf8').trim();
    return /^\d+$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}
