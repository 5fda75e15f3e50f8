import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { networkInterfaces, release } from 'node:os';
import { basename } from 'node:path';
import { canonicalAddress, type Family, ipvsInterface } from '@sluice/netfilter';
import { liberalKey, type Machine } from '@sluice/bundle';
import type { NodeFacts } from '../ports/node-facts.ts';
import type { Tunables } from './sysctl.ts';
import { findIpvsTools, type Tools } from './tools.ts';

/** The facts of this machine that rules depend on, as of now. */
export function readMachine(tunables: Tunables): Machine {
  return {
    kernelRelease: release(),
    addresses: interfaceAddresses(),
    tcpBeLiberal: (tunables.read(liberalKey) ?? 0) !== 0,
  };
}

/** The facts of this machine, as of now. Addresses change: read them again for each bundle. */
export function readFacts(tools: Tools, tunables: Tunables): NodeFacts {
  const versions: { [F in Family]?: string } = {};
  for (const family of ['ipv4', 'ipv6'] as const) {
    const version = tools.families[family]?.version;
    if (version !== undefined) versions[family] = version;
  }
  const ipvsTools = findIpvsTools();
  return {
    ...readMachine(tunables),
    tools: versions,
    ipvsToolsMissing: 'missing' in ipvsTools ? ipvsTools.missing : [],
    kubeProxies: () => processesNamed('kube-proxy'),
    sysctlTakes: (key, value) =>
      tunables.read(key) === value || (tunables.read(key) !== undefined && tunables.writable(key)),
  };
}

/** The addresses of all interfaces except that of mode ipvs, sorted; IPv6 without its zone. */
export function interfaceAddresses(): Record<Family, readonly string[]> {
  const all = Object.entries(networkInterfaces()).flatMap(([name, list]) =>
    name === ipvsInterface ? [] : (list ?? []),
  );
  const of = (family: 'IPv4' | 'IPv6'): readonly string[] => [
    ...new Set(all.filter((one) => one.family === family).map(({ address }) => canonicalAddress(address) ?? address)),
  ];
  return { ipv4: of('IPv4').toSorted(), ipv6: of('IPv6').toSorted() };
}

/** All interfaces of this network namespace, up or not: `/proc/net/dev` has two header lines, then one line each. */
export function interfaceNames(): ReadonlySet<string> {
  const lines = readFileSync('/proc/self/net/dev', 'utf8').split('\n').slice(2);
  return new Set(lines.map((line) => line.slice(0, Math.max(0, line.lastIndexOf(':'))).trim()));
}

/**
 * Processes of this network namespace whose program has this name, also inside containers, with their command lines. A kube-proxy of a
 * cluster in containers of this machine, as kind makes one, has rules of its own.
 */
export function programsNamed(name: string): readonly { readonly pid: number; readonly words: readonly string[] }[] {
  const found: { readonly pid: number; readonly words: readonly string[] }[] = [];
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const words = readFileSync(`/proc/${entry}/cmdline`, 'utf8').split('\0');
      if (basename(words[0] ?? '') === name && isInOwnNetwork(entry)) found.push({ pid: Number(entry), words });
    } catch {
      // It has ended meanwhile.
    }
  }
  return found.toSorted((a, b) => a.pid - b.pid);
}

/** Their numbers, ascending. */
export const processesNamed = (name: string): readonly number[] => programsNamed(name).map(({ pid }) => pid);

/** Also where that cannot be seen. */
function isInOwnNetwork(process: string): boolean {
  try {
    return readlinkSync(`/proc/${process}/ns/net`) === readlinkSync('/proc/self/ns/net');
  } catch {
    return true;
  }
}
