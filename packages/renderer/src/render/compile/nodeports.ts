import { type Cidr, cidrContains, type Family, parseCidr, printWords } from '@sluice/bundle';
import type { Profile } from '../config.ts';

/** On which of a node's addresses node ports are open in one family. `any` may or may not hold the loopback addresses. */
export type NodePortScope = { readonly kind: 'any' } | { readonly kind: 'primary' } | CidrScope;

interface CidrScope {
  readonly kind: 'cidrs';
  readonly cidrs: readonly string[];
}

/**
 * localhost node ports exist only in mode iptables and IPv4: IPv6 has no `route_localnet` (kube-proxy's `NewProxier` in
 * `pkg/proxy/iptables`), and IPVS serves no loopback address.
 */
export function hasLocalhostNodePorts(profile: Profile, family: Family): boolean {
  return profile.mode === 'iptables' && family === 'ipv4' && profile.iptables.localhostNodePorts;
}

/**
 * What `nodePortAddresses` means for a family. A list with no CIDR of the family opens every address, as in kube-proxy, and so
 * does a CIDR that holds the whole family.
 */
export function nodePortScope(profile: Profile, family: Family): NodePortScope {
  if (profile.nodePortAddresses.includes('primary')) return { kind: 'primary' };
  const cidrs = profile.nodePortAddresses.filter((text) => parseCidr(text)?.family === family);
  if (cidrs.length === 0 || cidrs.some((text) => parseCidr(text)?.prefix === 0)) return { kind: 'any' };
  return { kind: 'cidrs', cidrs };
}

/**
 * The CIDRs that choose `${host.nodePortAddresses}` in a family, without the loopback addresses where node ports on these
 * cannot work: kube-proxy passes over such an address of the host, whichever CIDR it lies in.
 */
export function hostCidrs(profile: Profile, family: Family): readonly string[] {
  const scope = nodePortScope(profile, family);
  if (profile.mode === 'ipvs') return ipvsHostCidrs(profile, family, scope);
  if (scope.kind !== 'cidrs') return [];
  if (hasLocalhostNodePorts(profile, family)) return scope.cidrs;
  return scope.cidrs.flatMap((text) => without(parseCidr(text)!, loopback[family]));
}

/**
 * In mode ipvs an empty list opens every address. So a family without a CIDR has to say so where the other one has some.
 * Loopback addresses never count there.
 */
function ipvsHostCidrs(profile: Profile, family: Family, scope: NodePortScope): readonly string[] {
  if (scope.kind === 'cidrs') return scope.cidrs;
  const isAny = (other: Family): boolean => nodePortScope(profile, other).kind !== 'cidrs';
  if (scope.kind === 'primary' || profile.families.every(isAny)) return [];
  return [family === 'ipv4' ? '0.0.0.0/0' : '::/0'];
}

/** Whether node ports are to answer on 127.0.0.1, for which the kernel must route what it calls martian. */
export function needsRouteLocalnet(profile: Profile): boolean {
  if (!profile.families.includes('ipv4') || !hasLocalhostNodePorts(profile, 'ipv4')) return false;
  const scope = nodePortScope(profile, 'ipv4');
  if (scope.kind !== 'cidrs') return scope.kind === 'any';
  return scope.cidrs.some((text) => overlap(parseCidr(text)!, loopback.ipv4));
}

/** The last rules of `KUBE-SERVICES`: what is for the node itself may be for a node port. */
export function nodePortTail(profile: Profile, family: Family): readonly string[] {
  const note = 'kubernetes service nodeports; NOTE: this must be the last rule in this chain';
  const tail = (match: string): string[] => [
    `-A KUBE-SERVICES -m comment --comment "${note}" ${match} -j KUBE-NODEPORTS`,
  ];
  const scope = nodePortScope(profile, family);
  switch (scope.kind) {
    case 'primary':
      return tail('-d ${node.address}');
    case 'cidrs':
      return hostCidrs(profile, family).length === 0 ? [] : tail('-d ${host.nodePortAddresses}');
    case 'any':
      if (hasLocalhostNodePorts(profile, family)) return tail('-m addrtype --dst-type LOCAL');
      return tail(`-m addrtype --dst-type LOCAL ! -d ${family === 'ipv4' ? '127.0.0.0/8' : '::1/128'}`);
  }
}

const loopback = { ipv4: parseCidr('127.0.0.0/8')!, ipv6: parseCidr('::1/128')! } as const;

function overlap(a: Cidr, b: Cidr): boolean {
  const [wide, narrow] = a.prefix <= b.prefix ? [a, b] : [b, a];
  return cidrContains(wide.text, printWords(narrow.words));
}

/** What a network holds apart from another one: itself, nothing, or a network for each bit by which the other is narrower. */
function without(cidr: Cidr, hole: Cidr): readonly string[] {
  if (!overlap(cidr, hole)) return [cidr.text];
  const parts: string[] = [];
  for (let prefix = cidr.prefix + 1; prefix <= hole.prefix; prefix++) {
    const [word, bit] = [(prefix - 1) >> 4, 0x8000 >> ((prefix - 1) & 15)];
    const beside = hole.words.map((bits, index) => (index === word ? bits ^ bit : bits));
    parts.push(parseCidr(`${printWords(beside)}/${prefix}`)!.text);
  }
  return parts;
}
