import { cidrContains, compareText, type Family, perObject } from '@sluice/netfilter';
import { type HeaderNote, type HeaderNotes, valueOf } from '@sluice/bundle';
import type { DeclaredFrontend } from './declared.ts';
import type { Branch, Destination, FlowSource } from '../flows/flow.ts';
import { factOf, type NodeOf } from '../bundle/node.ts';

/** The expected outcome of connections from one source. */
export type ExpectedOutcome =
  | { readonly kind: 'accept' | 'pass' | 'reject' | 'drop' }
  /** One of the endpoints, each with its share. */
  | {
      readonly kind: 'endpoints';
      /** In byte order of `to`. */
      readonly branches: readonly Branch[];
      readonly affinity?: string;
      readonly scheduler?: string;
    };

/** The traffic policy of a profile: what holds for all its Services. */
export interface ProfileTrafficPolicy {
  /** The match for traffic that is not from the node's pods, with its variable; `''`: without a detector. */
  readonly notLocal: string;
  /** The node's own addresses on which node ports are open. */
  readonly nodePorts: { readonly address: (address: string) => boolean; readonly localhost: boolean };
  /** Modes iptables and nftables: all traffic to ClusterIPs is masqueraded, that of pods too. */
  readonly masqueradeAll?: boolean;
  /** Mode nftables: node ports on loopback addresses are rejected where they are not served. */
  readonly refusesLocalhost?: boolean;
  /** Mode nftables: `sluiced` serves TCP node ports on ::1. */
  readonly listensOnLocalhost?: boolean;
  /** Mode ipvs: the default scheduler, with its flags. */
  readonly scheduler?: string;
}

/** A connection from a source to a declared destination on one node. */
export interface DeclaredConnection {
  readonly frontend: DeclaredFrontend;
  readonly node: NodeOf;
  readonly family: Family;
  readonly source: FlowSource;
  readonly trafficPolicy: ProfileTrafficPolicy;
}

/** The endpoints of the frontend's port, usable or not: one list, for which others are read once for all connections. */
export const endpointsOf = perObject(({ declared, port }: DeclaredFrontend): readonly HeaderNote[] =>
  declared.notes.endpoints.filter((endpoint) => endpoint.port === port?.name),
);

/** Session affinity in the form of flow outcomes. */
export function affinityOf({ affinitySeconds }: HeaderNotes): { readonly affinity?: string } {
  return affinitySeconds === undefined ? {} : { affinity: `${affinitySeconds} s` };
}

/** Endpoints, with equal shares unless others are given. @param masked whether connections to an endpoint are masqueraded */
export function choice(
  list: readonly HeaderNote[],
  notes: HeaderNotes,
  masked: (to: string) => boolean,
  shares: ReadonlyMap<string, number> = new Map(list.map(({ text }) => [text, 1 / list.length])),
): ExpectedOutcome {
  return {
    kind: 'endpoints',
    branches: inOrder(shares).map((to) => ({
      verdict: 'dnat',
      to,
      masquerade: masked(to),
      share: shares.get(to) ?? 0,
    })),
    ...affinityOf(notes),
  };
}

const inOrder = perObject((shares: ReadonlyMap<string, number>) => [...shares.keys()].toSorted(compareText));

/** The variables in a match for traffic that is not from the node's pods: the first of all, and that of a whole match. */
interface NotLocal {
  readonly variable: DetectorVariable;
  readonly match: DetectorVariable & { readonly option?: string | undefined; readonly tail?: string | undefined };
}

interface DetectorVariable {
  readonly owner?: string | undefined;
  readonly name?: string | undefined;
}

/** Read once for all connections of a profile. */
const readNotLocal = perObject(({ notLocal }: ProfileTrafficPolicy): NotLocal => {
  const [, owner, name] = /\$\{(node|profile)\.([A-Za-z]+)\}/.exec(notLocal) ?? [];
  const whole = /^! -([si]) \$\{(node|profile)\.([A-Za-z]+)\}(\+?)$/.exec(notLocal) ?? [];
  return { variable: { owner, name }, match: { option: whole[1], owner: whole[2], name: whole[3], tail: whole[4] } };
});

const detectorValue = ({ node, family }: DeclaredConnection, { owner, name = '' }: DetectorVariable): unknown =>
  valueOf(owner === 'node' ? node.file.values : node.profile.values, family, name);

/** Whether the node knows its pods: its profile has a detector, whose variable has a value there. */
export function knowsPods(connection: DeclaredConnection): boolean {
  const { trafficPolicy } = connection;
  if (trafficPolicy.notLocal === '') return false;
  return typeof detectorValue(connection, readNotLocal(trafficPolicy).variable) === 'string';
}

/** Whether the profile's detector takes a source for a pod of the node. Without a detector, no source is. */
export function isLocalPod(connection: DeclaredConnection): boolean {
  const { source, trafficPolicy } = connection;
  if (trafficPolicy.notLocal === '') return false;
  const { match } = readNotLocal(trafficPolicy);
  const value = detectorValue(connection, match);
  if (typeof value !== 'string') return true;
  if (match.option === 'i') return match.tail === '+' ? (source.in ?? '').startsWith(value) : source.in === value;
  return cidrContains(value, source.address);
}

/** Whether source ranges admit a source at load-balancer addresses. */
export function isAllowed(notes: HeaderNotes, node: NodeOf, family: Family, source: FlowSource): boolean {
  const ranges = notes.sourceRanges;
  if (ranges.length === 0 || ranges.some((range) => cidrContains(range, source.address))) return true;
  // A node whose address is in a range talks to the load balancer's address from that same address.
  const own = factOf(node, family, 'address');
  const nodeInRange = own !== undefined && ranges.some((range) => cidrContains(range, own));
  return nodeInRange && notes.loadBalancerAddresses.includes(source.address);
}

/** Whether node ports are open at the destination address of the node. */
export function isOpen(
  node: NodeOf,
  family: Family,
  destination: Destination,
  { nodePorts }: Pick<ProfileTrafficPolicy, 'nodePorts'>,
): boolean {
  if (destination.kind === 'localhost') return nodePorts.localhost;
  const address = factOf(node, family, 'address');
  return address !== undefined && nodePorts.address(address);
}
