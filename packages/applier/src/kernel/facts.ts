import { readdirSync, readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { canonicalAddress, type Family } from '@sluice/bundle';
import type { NodeFacts } from '../rollout/ports.ts';
import type { Tunables } from './sysctl.ts';
import type { Tools } from './tools.ts';

/** What this machine is and can do, as of now. Addresses come and go: read it again for each bundle. */
export function readFacts(tools: Tools, tunables: Tunables): NodeFacts {
  const versions: { [F in Family]?: string } = {};
  for (const family of ['ipv4', 'ipv6'] as const) {
    const version = tools.families[family]?.version;
    if (version !== undefined) versions[family] = version;
  }
  return {
    tools: versions,
    addresses: interfaceAddresses(),
    kubeProxies: () => processesNamed('kube-proxy'),
    sysctlTakes: (key, value) =>
      tunables.read(key) === value || (tunables.read(key) !== undefined && tunables.writable(key)),
  };
}

/** The addresses of all interfaces, sorted by the system; IPv6 without its zone. */
export function interfaceAddresses(): Record<Family, readonly string[]> {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const of = (family: 'IPv4' | 'IPv6'): readonly string[] => [
    ...new Set(all.filter((one) => one.family === family).map(({ address }) => canonicalAddress(address) ?? address)),
  ];
  return { ipv4: of('IPv4').toSorted(), ipv6: of('IPv6').toSorted() };
}

/** Processes whose program has this name, also inside containers of this machine. */
export function processesNamed(name: string): readonly number[] {
  const found: number[] = [];
  for (const entry of readdirSync('/proc')) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const program = readFileSync(`/proc/${entry}/cmdline`, 'utf8').split('\0', 1)[0] ?? '';
      if (program.slice(program.lastIndexOf('/') + 1) === name) found.push(Number(entry));
    } catch {
      // It ended while we looked.
    }
  }
  return found.toSorted((a, b) => a - b);
}
