import { type Cidr, cidrContains, compareText, type Family, parseCidr, printWords } from '@sluice/bundle';
import type { Profile } from '../config.ts';

/** On which of a node's addresses node ports are open in one family. `any` may or may not hold the loopback addresses. */
export type NodePortScope = { readonly kind: 'any' } | { readonly kind: 'primary' } | CidrScope;

interface CidrScope {
  readonly kind: 'cidrs';
  /** CIDRs, and perhaps the word `primary` for the node's own address. */
  readonly cidrs: readonly string[];
}

const primary = 'primary';
const loopback = { ipv4: parseCidr('127.0.0.0/8')!, ipv6: parseCidr('::1/128')! } as const;
const whole = { ipv4: '0.0.0.0/0', ipv6: '::/0' } as const;

/** Localhost node ports exist only in mode iptables and IPv4: IPv6 has no `route_localnet`, and IPVS serves no loopback address. */
const mayHaveLocalhostNodePorts = ({ mode, iptables }: Profile, family: Family): boolean =>
  mode === 'iptables' && family === 'ipv4' && iptables.localhostNodePorts;

/** Whether node ports are open on a loopback address (kube-proxy's `NewProxier` in `pkg/proxy/iptables`). */
export function hasLocalhostNodePorts(profile: Profile, family: Family): boolean {
  if (!mayHaveLocalhostNodePorts(profile, family)) return false;
  const scope = nodePortScope(profile, family);
  if (scope.kind !== 'cidrs') return scope.kind === 'any';
  return scope.cidrs.some((text) => text !== primary && overlap(parseCidr(text)!, loopback.ipv4));
}

/**
 * What `nodePortAddresses` means for a family (kube-proxy's `expandNodePortAddressKeywords` and `NewNodePortAddresses`). A list with
 * nothing of the family opens every address, and so does a CIDR that holds the whole family. With `primary`, a node without an
 * address of the family opens none; kube-proxy opens every one there, which is the opposite of what the word asks for.
 */
export function nodePortScope(profile: Profile, family: Family): NodePortScope {
  const { nodePortAddresses: wanted } = profile;
  const cidrs = wanted.flatMap((text) => cidrsOf(text, family));
  if (cidrs.some((text) => parseCidr(text)?.prefix === 0)) return { kind: 'any' };
  if (!wanted.includes(primary)) return cidrs.length === 0 ? { kind: 'any' } : { kind: 'cidrs', cidrs };
  const besides = usable(profile, family, cidrs);
  return besides.length === 0 ? { kind: 'primary' } : { kind: 'cidrs', cidrs: [...besides, primary] };
}

function cidrsOf(text: string, family: Family): readonly string[] {
  if (text === 'localhost') return [loopback[family].text];
  if (text === 'all') return [whole[family]];
  return parseCidr(text)?.family === family ? [text] : [];
}

/** Without the loopback addresses where node ports on these cannot work: kube-proxy passes over such an address, whichever CIDR it lies in. */
function usable(profile: Profile, family: Family, cidrs: readonly string[]): readonly string[] {
  if (mayHaveLocalhostNodePorts(profile, family)) return cidrs;
  return cidrs.flatMap((text) => (text === primary ? [text] : without(parseCidr(text)!, loopback[family])));
}

/**
 * Whether rules can say `${node.address}`, since node ports are open on nothing else where they stand. In mode ipvs one variable
 * serves both families.
 */
export function isPrimaryAlone(profile: Profile): boolean {
  const kinds = profile.families.map((family) => nodePortScope(profile, family).kind);
  const besides = profile.mode === 'ipvs' ? 'primary' : 'any';
  return kinds.includes('primary') && kinds.every((kind) => kind === 'primary' || kind === besides);
}

/** What chooses `${host.nodePortAddresses}` in a family: CIDRs, and `primary` beside others. */
export function hostCidrs(profile: Profile, family: Family): readonly string[] {
  const scope = nodePortScope(profile, family);
  switch (scope.kind) {
    case 'primary':
      return isPrimaryAlone(profile) ? [] : [primary];
    case 'cidrs':
      return profile.mode === 'ipvs' ? scope.cidrs : usable(profile, family, scope.cidrs);
    case 'any':
      return profile.mode === 'ipvs' ? wholeBesideOthers(profile, family) : [];
  }
}

/** In mode ipvs an empty list opens every address. So a family without a CIDR has to say so where the other one has some. */
function wholeBesideOthers(profile: Profile, family: Family): readonly string[] {
  const isAny = (other: Family): boolean => nodePortScope(profile, other).kind === 'any';
  return profile.families.every(isAny) ? [] : [whole[family]];
}

/**
 * `nodePortAddresses` of `profile.yaml`: for all families. A family in which node ports are open nowhere has its CIDRs there, too, because
 * an empty list means every address; the other one then has to say that it is open.
 */
export function chosenCidrs(profile: Profile): readonly string[] {
  const chosen = profile.families.flatMap((family) => hostCidrs(profile, family));
  const scopes = profile.families.map((family) => ({ family, scope: nodePortScope(profile, family) }));
  const isClosed = chosen.length === 0 && scopes.some(({ scope }) => scope.kind === 'cidrs');
  const cidrs = isClosed
    ? scopes.flatMap(({ family, scope }) => (scope.kind === 'cidrs' ? scope.cidrs : [whole[family]]))
    : chosen;
  return [...new Set(cidrs)].toSorted(compareText);
}

/** Whether node ports are to answer on 127.0.0.1, for which the kernel must route what it calls martian. */
export function needsRouteLocalnet(profile: Profile): boolean {
  return profile.families.includes('ipv4') && hasLocalhostNodePorts(profile, 'ipv4');
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
      return tail(isPrimaryAlone(profile) ? '-d ${node.address}' : '-d ${host.nodePortAddresses}');
    case 'cidrs':
      return hostCidrs(profile, family).length === 0 ? [] : tail('-d ${host.nodePortAddresses}');
    case 'any':
      if (hasLocalhostNodePorts(profile, family)) return tail('-m addrtype --dst-type LOCAL');
      return tail(`-m addrtype --dst-type LOCAL ! -d ${family === 'ipv4' ? '127.0.0.0/8' : '::1/128'}`);
  }
}

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
