import { type CheckedMap, checkOf, isFlag, isKernelRelease, isMap, isNodeName, oneOf } from './checks.ts';
import { isProblem, readDocument } from './documents.ts';
import type { Machine } from './machine.ts';
import { type Problem, type Family, parseAddress } from '@sluice/netfilter';

/** Bounds of a file of host facts. */
export const hostFactsLimits = { bytesMax: 1024 * 1024 } as const;

const format = 1;
const areAddresses = (value: unknown, family: Family): boolean =>
  Array.isArray(value) && new Set(value).size === value.length && value.every((one) => isAddress(one, family));
/** In the spelling of rules, into which it is copied. */
const isAddress = (value: unknown, family: Family): boolean => {
  const address = typeof value === 'string' ? parseAddress(value) : undefined;
  return address?.family === family && address.text === value;
};

const checks = {
  /** The node's name in the bundle. */
  node: isNodeName,
  kernelRelease: isKernelRelease,
  addresses: checkOf<Machine['addresses']>((value) => {
    if (!isMap(value) || Object.keys(value).join() !== 'ipv4,ipv6') return false;
    return areAddresses(value['ipv4'], 'ipv4') && areAddresses(value['ipv6'], 'ipv6');
  }),
  tcpBeLiberal: isFlag,
  /** For layout `tree`: whether the kernel has `-m bpf`. */
  knowsBpf: isFlag,
  /** For layout `tree`: whether Sluice provides KUBE-MARK-MASQ and KUBE-POSTROUTING, because no other program does. */
  providesKubeChains: isFlag,
};
/**
 * The facts of a machine that its program depends on, as one file: `sluice show --host` reads it, as it reads an
 * observation. README.md, "Host facts".
 */
export type HostFacts = CheckedMap<typeof checks> & Machine;

/**
 * Reads the file; unknown keys and other formats are refused.
 * @param file named in the problem
 * @returns the facts, or `HOST_FACTS_INVALID`
 */
export function readHostFacts(file: string, text: string): HostFacts | Problem {
  if (text.length > hostFactsLimits.bytesMax)
    return hostFactsProblem(`Cannot read ${file}: it is larger than ${hostFactsLimits.bytesMax} bytes`);
  const read = readDocument(file, text, 'HostFacts', { format: oneOf(format), ...checks });
  if (isProblem(read)) return { ...hostFactsProblem(read.message), ...(read.at ? { at: read.at } : {}) };
  const { format: _format, ...facts } = read;
  return facts;
}

/** The problem of a file of host facts that cannot be used. @param message a sentence without a full stop */
export function hostFactsProblem(message: string): Problem {
  const hint = 'Write it on that node with `sluiced observe -o FILE`, and read it with a Sluice of the same version';
  return { code: 'HOST_FACTS_INVALID', level: 'error', message, hint };
}
