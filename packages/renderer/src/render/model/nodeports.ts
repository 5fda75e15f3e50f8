import {
  type Cidr,
  cidrContains,
  compareText,
  type Family,
  type LocalhostNodePorts,
  localhostAddress,
  localhostListenerAddress,
  modeFacts,
  parseCidr,
  printWords,
} from '@sluice/netfilter';
import type { Profile } from './config.ts';
import { isBefore } from './version.ts';

/** The addresses of a node on which node ports are open in one family. `any` may include the loopback addresses. */
type NodePortScope = { readonly kind: 'any' } | { readonly kind: 'primary' } | CidrScope;

interface CidrScope {
  readonly kind: 'cidrs';
  /** CIDRs, and optionally the word `primary` for the node's own address. */
  readonly cidrs: readonly string[];
}

/** The word for the node's own address. */
export const primary = 'primary';
const loopback = { ipv4: parseCidr('127.0.0.0/8')!, ipv6: parseCidr('::1/128')! } as const;
const whole = { ipv4: '0.0.0.0/0', ipv6: '::/0' } as const;

/** IPv6 has no `route_localnet`. */
const mayHaveLocalhostNodePorts = (profile: Profile, family: Family): boolean =>
  family === 'ipv4' &&
  (modeFacts[profile.mode].nodePorts.onLoopback
    ? profile.iptables.localhostNodePorts
    : localhostOfTable(profile) === 'served');

/**
 * Mode nftables: what happens to node ports on loopback addresses. kube-proxy serves them where a CIDR other than the whole family
 * contains 127.0.0.1 (`ContainsExplicitLoopback` in `pkg/proxy/util`), and refuses them else.
 * @returns undefined where the feature gate is off: nothing
 */
export function localhostOfTable(profile: Profile): LocalhostNodePorts | undefined {
  if (!hasLocalhostGate(profile)) return undefined;
  return namesLoopback(profile, 'ipv4', localhostAddress) ? 'served' : 'refused';
}

/** Mode nftables: whether `sluiced` listens on ::1, under the same condition for that address. */
export const hasLocalhostListener = (profile: Profile): boolean =>
  hasLocalhostGate(profile) && namesLoopback(profile, 'ipv6', localhostListenerAddress);

const hasLocalhostGate = ({ nftables, featureGates, kubeProxyVersion }: Profile): boolean =>
  nftables !== undefined && (featureGates.KubeProxyNFTablesLocalhostNodePorts ?? !isBefore(kubeProxyVersion, '1.38'));

/** Whether a CIDR other than the whole family has a loopback address. */
function namesLoopback(profile: Profile, family: Family, address: string): boolean {
  const cidrs = wantedAddresses(profile).flatMap((text) => parseCidr(cidrsOf(text, family)[0] ?? '') ?? []);
  const isNamed = cidrs.some(({ prefix, text }) => prefix > 0 && cidrContains(text, address));
  return isNamed && profile.families.includes(family);
}

/** Whether node ports are open on a loopback address (kube-proxy's `NewProxier` in `pkg/proxy/iptables`). */
export function hasLocalhostNodePorts(profile: Profile, family: Family): boolean {
  if (!mayHaveLocalhostNodePorts(profile, family)) return false;
  if (!modeFacts[profile.mode].nodePorts.onLoopback) return true;
  const scope = nodePortScope(profile, family);
  if (scope.kind !== 'cidrs') return scope.kind === 'any';
  return scope.cidrs.some((text) => text !== primary && overlap(parseCidr(text)!, loopback.ipv4));
}

/**
 * The meaning of `nodePortAddresses` for a family (kube-proxy's `expandNodePortAddressKeywords` and `NewNodePortAddresses`). A list
 * without a CIDR of the family opens every address, and so does a CIDR of the whole family. With `primary`, a node without an address
 * of the family opens none; kube-proxy opens all of them there, the opposite of the keyword's meaning.
 */
export function nodePortScope(profile: Profile, family: Family): NodePortScope {
  const wanted = wantedAddresses(profile);
  const cidrs = wanted.flatMap((text) => cidrsOf(text, family));
  if (cidrs.some((text) => parseCidr(text)?.prefix === 0)) return { kind: 'any' };
  if (!wanted.includes(primary)) return cidrs.length === 0 ? { kind: 'any' } : { kind: 'cidrs', cidrs };
  const others = usable(profile, family, cidrs);
  return others.length === 0 ? { kind: 'primary' } : { kind: 'cidrs', cidrs: [...others, primary] };
}

/** kube-proxy's `SetDefaults_KubeProxyConfiguration`. */
function wantedAddresses({ mode, nodePortAddresses }: Profile): readonly string[] {
  return nodePortAddresses.length === 0 && modeFacts[mode].nodePorts.onlyOnOwnAddress ? [primary] : nodePortAddresses;
}

function cidrsOf(text: string, family: Family): readonly string[] {
  if (text === 'localhost') return [loopback[family].text];
  if (text === 'all') return [whole[family]];
  return parseCidr(text)?.family === family ? [text] : [];
}

/** Removes the loopback addresses where node ports on them cannot work: kube-proxy skips such an address in any CIDR. */
function usable(profile: Profile, family: Family, cidrs: readonly string[]): readonly string[] {
  if (mayHaveLocalhostNodePorts(profile, family)) return cidrs;
  return cidrs.flatMap((text) => (text === primary ? [text] : without(parseCidr(text)!, loopback[family])));
}

/** Whether one variable has the addresses of both families, so that one selector must fit both. */
const sharesVariable = ({ mode }: Profile): boolean => modeFacts[mode].nodePorts.addresses === 'by-one-variable';

/** Whether rules can use `${node.address}`, because node ports are open on no other address. */
export function isPrimaryAlone(profile: Profile): boolean {
  const kinds = profile.families.map((family) => nodePortScope(profile, family).kind);
  const otherKind = modeFacts[profile.mode].nodePorts.addresses === 'by-family' ? 'any' : 'primary';
  return kinds.includes('primary') && kinds.every((kind) => kind === 'primary' || kind === otherKind);
}

/** The selectors of `${host.nodePortAddresses}` in a family: CIDRs, and `primary` beside CIDRs. */
export function hostCidrs(profile: Profile, family: Family): readonly string[] {
  const scope = nodePortScope(profile, family);
  switch (scope.kind) {
    case 'primary':
      return isPrimaryAlone(profile) ? [] : [primary];
    case 'cidrs':
      return sharesVariable(profile) ? scope.cidrs : usable(profile, family, scope.cidrs);
    case 'any':
      return wholeOf[modeFacts[profile.mode].nodePorts.addresses](profile, family);
  }
}

/** What names every address of a family. In mode nftables an empty list is the node's own address. */
const wholeOf = {
  'by-family': () => [],
  'by-one-variable': explicitWhole,
  'as-elements': (_profile, family) => [whole[family]],
} as const satisfies Record<string, typeof hostCidrs>;

/** With one variable an empty list opens every address, so a family without CIDRs needs an explicit one beside a family with CIDRs. */
function explicitWhole(profile: Profile, family: Family): readonly string[] {
  const isAny = (other: Family): boolean => nodePortScope(profile, other).kind === 'any';
  return profile.families.every(isAny) ? [] : [whole[family]];
}

/**
 * `nodePortAddresses` of `profile.yaml`, for all families. A family without open addresses keeps its CIDRs, because a list without one
 * of the family means every address; an open family beside it is then listed explicitly. In mode nftables rules use no variable: the list
 * says what their elements mean, unless that is the mode's default.
 */
export function chosenCidrs(profile: Profile): readonly string[] {
  const chosen = profile.families.map((family) => ({
    family,
    scope: nodePortScope(profile, family),
    cidrs: hostCidrs(profile, family),
  }));
  const isClosed = chosen.some(({ scope, cidrs }) => scope.kind === 'cidrs' && cidrs.length === 0);
  const all = chosen.flatMap(({ family, scope, cidrs }) => {
    if (!isClosed || cidrs.length > 0) return cidrs;
    return scope.kind === 'cidrs' ? scope.cidrs : [whole[family]];
  });
  return [...new Set(all)].toSorted(compareText);
}

/** Whether node ports are open on 127.0.0.1, which the kernel routes with `route_localnet` only. */
export function needsRouteLocalnet(profile: Profile): boolean {
  return profile.families.includes('ipv4') && hasLocalhostNodePorts(profile, 'ipv4');
}

/** The last rules of `KUBE-SERVICES`: packets to the node itself jump to the node ports. */
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

/** A network minus another one: itself, nothing, or one network for each bit by which the other is narrower. */
function without(cidr: Cidr, hole: Cidr): readonly string[] {
  if (!overlap(cidr, hole)) return [cidr.text];
  const parts: string[] = [];
  for (let prefix = cidr.prefix + 1; prefix <= hole.prefix; prefix++) {
    const [word, bit] = [(prefix - 1) >> 4, 0x8000 >> ((prefix - 1) & 15)];
    const sibling = hole.words.map((bits, index) => (index === word ? bits ^ bit : bits));
    parts.push(parseCidr(`${printWords(sibling)}/${prefix}`)!.text);
  }
  return parts;
}
