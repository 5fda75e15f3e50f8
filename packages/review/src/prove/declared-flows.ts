import { baseFile } from '@sluice/bundle';
import { addressOfEndpoint, cidrContains, type Family, modeFacts } from '@sluice/netfilter';
import { factOf, nodeOf, nodesOfProfile } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';
import {
  commonDestinations,
  compareDestinations,
  destinationsOf,
  loopback,
  otherPortOf,
  placeOf,
  unusedPort,
} from '../flows/destinations.ts';
import type { Branch, Destination, FlowOutcome } from '../flows/flow.ts';
import { type FlowRow, flowRows } from '../flows/flows.ts';
import type { Distinctions } from '../flows/groups.ts';
import type { DeclaredConnection, ExpectedOutcome, ProfileTrafficPolicy } from './connection.ts';
import { type DeclaredFrontend, declaredFrontends, declaredIn, type ServiceDeclaration } from './declared.ts';
import { distinctionsOf } from './distinctions.ts';
import { isSameBut } from './mode-differences.ts';
import { provenModes } from './planes.ts';

/** A flow, the outcome that the Services declare of it, and that of the bundle's rules. */
export interface DeclaredFlow extends Omit<FlowRow, 'outcomes'> {
  readonly expected: ExpectedOutcome | { readonly kind: 'unclaimed' };
  readonly found: FlowOutcome;
}

/**
 * Every flow of a profile in one family: to each destination that rules match or Services declare, from each class of sources.
 * @throws Stopped when nodes would refuse the rules
 */
export function* declaredFlows(view: BundleView, profile: string, family: Family): Generator<DeclaredFlow> {
  const index = view.index(profile, family);
  const all = declaredIn(view, profile, family);
  const frontends = Map.groupBy(all.flatMap(declaredFrontends), ({ destination }) => placeOf(destination));
  const named = destinationsOf(family, [{ index, paths: index.paths }]);
  const common = commonDestinations(view, profile, family);
  const undeclared = common.filter((other) => !frontends.has(placeOf({ ...other, kind: 'address' })));
  const carried = carriedBy(all, frontends);
  const destinations = [...withDeclared(withOtherPorts(named, all, carried, frontends), frontends), ...undeclared];
  const declarations: Declarations = {
    view,
    frontendOf: new Map(destinations.map((destination) => [destination, frontends.get(placeOf(destination))?.[0]])),
    trafficPolicy: provenModes[view.profiles.get(profile)!.mode].trafficPolicy(view, profile, family),
    carried,
    serviceCIDRs: namedCIDRs(view, profile),
  };
  const distinctions = (some: readonly Destination[]): Distinctions =>
    distinctionsOf(
      some.flatMap((destination) => declarations.frontendOf.get(destination) ?? []),
      family,
    );
  const question = { profiles: [profile], family, destinations, nodes: nodesOfProfile(view, profile), distinctions };
  for (const { outcomes, ...flow } of flowRows([view], question))
    yield { ...flow, expected: expectation(declarations, flow), found: outcomes[0]! };
}

/** `base/last.nft` says where the Service CIDRs of the cluster are defaults. */
function namedCIDRs({ files, profiles, cluster }: BundleView, profile: string): readonly string[] {
  if (!modeFacts[profiles.get(profile)!.mode].dropsUnallocated) return [];
  const isDefault = files.get(baseFile(profile, 'last', 'nft'))?.startsWith('# serviceCIDRs is not set') === true;
  return isDefault ? [] : cluster.serviceCIDRs;
}

/** The declarations that flows are compared with. */
interface Declarations {
  readonly view: BundleView;
  /** By the destination itself, of those that are asked for. */
  readonly frontendOf: ReadonlyMap<Destination, DeclaredFrontend | undefined>;
  readonly trafficPolicy: ProfileTrafficPolicy;
  /** In mode ipvs: the Services' own addresses, which every node carries; in mode nftables their ClusterIPs. */
  readonly carried: ReadonlySet<string>;
  /** In mode nftables: the networks in which packets to addresses that no Service has are dropped. */
  readonly serviceCIDRs: readonly string[];
}

type FrontendsByPlace = ReadonlyMap<string, readonly DeclaredFrontend[]>;

function carriedBy(all: readonly ServiceDeclaration[], frontends: FrontendsByPlace): ReadonlySet<string> {
  const [first] = all;
  if (!first) return new Set();
  const { carries } = provenModes[first.mode];
  return new Set(
    [...frontends.values()].flatMap(([frontend]) =>
      frontend && carries(frontend.role) ? frontend.destination.address || [] : [],
    ),
  );
}

/** Adds other ports of ClusterIPs whose element is missing in mode nftables: they are not rejected then. */
function withOtherPorts(
  found: readonly Destination[],
  all: readonly ServiceDeclaration[],
  carried: ReadonlySet<string>,
  frontends: FrontendsByPlace,
): readonly Destination[] {
  if (!all[0] || !modeFacts[all[0].mode].dropsUnallocated) return found;
  const known = new Set(found.map(placeOf));
  const others = [...carried].map((address) => undeclaredPortOf(address, known, frontends));
  return [...found, ...others.filter((one) => !known.has(placeOf(one)))];
}

/** The first port of an address from the discard port on that no Service or rule has. */
function undeclaredPortOf(address: string, known: ReadonlySet<string>, frontends: FrontendsByPlace): Destination {
  for (let port = unusedPort; ; port++) {
    const other = { ...otherPortOf(address, port), services: [] };
    const place = placeOf({ ...other, kind: 'address' });
    if (!known.has(place) && !frontends.has(place)) return other;
  }
}

/** Adds declared destinations that no rule names. */
function withDeclared(found: readonly Destination[], frontends: FrontendsByPlace): readonly Destination[] {
  const known = new Set(found.map(placeOf));
  const missing = [...frontends].flatMap(([place, [frontend]]) =>
    frontend && !known.has(place) ? [frontend.destination] : [],
  );
  return [...found, ...missing].toSorted(compareDestinations);
}

function expectation(
  { view, frontendOf, trafficPolicy, carried, serviceCIDRs }: Declarations,
  row: Omit<FlowRow, 'outcomes'>,
): DeclaredFlow['expected'] {
  const { destination, family, source } = row;
  const frontend = frontendOf.get(destination);
  const node = nodeOf(view, row.nodes.nodes[0]!);
  if (frontend) return expectedOf({ frontend, node, family, source, trafficPolicy });
  if (destination.address === loopback[family]) return { kind: 'drop' };
  // Ports of such an address that no Service has are rejected, unless it is the node's own address.
  const isCarried = carried.has(destination.address) && destination.address !== factOf(node, family, 'address');
  if (isCarried) return { kind: 'reject' };
  return { kind: serviceCIDRs.some((cidr) => cidrContains(cidr, destination.address)) ? 'drop' : 'unclaimed' };
}

/** Whether an outcome is the declared one. */
export function isMet(expected: DeclaredFlow['expected'], found: FlowOutcome): boolean {
  const { branches } = found;
  if (expected.kind === 'unclaimed')
    return branches.every(({ verdict, masquerade }) => verdict === 'pass' && !masquerade);
  if (expected.kind !== 'endpoints') {
    const { kind } = expected;
    const [branch] = branches;
    if (branches.length !== 1 || branch?.verdict !== kind) return false;
    return branch.reject === undefined && !branch.masquerade;
  }
  return found.scheduler === expected.scheduler && isSameBut(found, expected);
}

/** The outcome that a Service's declaration demands of a node. */
function expectedOf(connection: DeclaredConnection): ExpectedOutcome {
  const outcome = demandedOf(connection);
  const { node, family, source } = connection;
  if (outcome.kind !== 'endpoints' || source.in === undefined) return outcome;
  // A packet from outside to an endpoint on the node's own address is delivered: it never leaves, where it would be masqueraded.
  const own = factOf(node, family, 'address') ?? '';
  const isOwn = ({ to = '' }: Branch): boolean => to.includes(own) && addressOfEndpoint(to) === own;
  if (!outcome.branches.some(isOwn)) return outcome;
  return { ...outcome, branches: outcome.branches.map((one) => (isOwn(one) ? { ...one, masquerade: false } : one)) };
}

function demandedOf(connection: DeclaredConnection): ExpectedOutcome {
  const { mode } = connection.node.profile;
  if (connection.frontend.role === 'health-check')
    return { kind: modeFacts[mode].healthChecks.areAccepted ? 'accept' : 'pass' };
  return provenModes[mode].expected(connection);
}
