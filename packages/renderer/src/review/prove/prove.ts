import {
  families,
  addAll,
  cidrContains,
  type Family,
  fillRules,
  ipvsHost,
  linkFlat,
  modeFacts,
  type Problem,
  readIpvs,
} from '@sluice/netfilter';
import { baseFile, type BundleFiles, readPath, type ResolvedNode, resolveNode } from '@sluice/bundle';
import { distinctionsOf } from './distinctions.ts';
import type { Distinctions } from '../flows/groups.ts';
import { type Claim, claimsOf, type ServiceDeclaration, declaredIn } from './declared.ts';
import {
  compareDestinations,
  destinationsOf,
  commonDestinations,
  loopback,
  otherPortOf,
  placeOf,
} from '../flows/destinations.ts';
import type { ExpectedOutcome, ProfileTrafficPolicy } from './connection.ts';
import { expectedOf } from './expected.ts';
import { type HeaderSpace, headerSpaceNode, headerSpaceOf, TracedPackets } from './header-space.ts';
import type { Branch, Destination, FlowOutcome } from '../flows/flow.ts';
import { flowRows, type FlowRow } from '../flows/flows.ts';
import { nftStateOf } from '../flows/nft-state.ts';
import { nodesOfProfile, factOf, nodeOf, ReviewStopped } from '../bundle/node.ts';
import { provenModes } from './planes.ts';
import { hostOf } from '../flows/program.ts';
import {
  declaredBaseTreatment,
  type BaseTreatment,
  baseTreatmentOf,
  baseTreatmentKeys,
} from '../flows/base-treatment.ts';
import { hasFamily, type BundleView, viewOf } from '../bundle/view.ts';

/** A flow with another outcome than the Services declare. */
export interface CounterExample extends Omit<FlowRow, 'outcomes'> {
  readonly expected: ExpectedOutcome | { readonly kind: 'unclaimed' };
  readonly found: FlowOutcome;
}

/** A wrong treatment of packets of established connections by a profile's base files. */
export interface ProfileFault {
  readonly profile: string;
  readonly family: Family;
  readonly what: keyof BaseTreatment;
  readonly expected: string;
  readonly found: string;
}

/** The extent of the checks, and the faults found. */
export interface Proof {
  readonly profiles: readonly {
    readonly profile: string;
    readonly family: Family;
    readonly services: number;
    readonly flows: number;
    readonly headerSpace?: HeaderSpace;
  }[];
  readonly counterExamples: readonly CounterExample[];
  readonly faults: readonly ProfileFault[];
}

/** Whether no fault was found. */
export function isProved({ counterExamples, faults }: Proof): boolean {
  return counterExamples.length === 0 && faults.length === 0;
}

/**
 * Checks for every profile, node and Service that traffic from every source class has the outcome that the comment block of the
 * Service's file declares: all usable endpoints with equal shares, or rejected or dropped according to the traffic policies; that
 * addresses of no Service are not translated; and that base files treat packets of established connections as kube-proxy's rules do.
 * @returns the proof with its counter-examples, or the problems for which nodes would refuse the bundle
 */
export function proveBundle(files: BundleFiles): Proof | readonly Problem[] {
  const view = viewOf(files);
  if (!('index' in view)) return view;
  const refused = linkProblems(view);
  if (refused.length > 0) return refused;
  const profiles: Proof['profiles'][number][] = [];
  const counterExamples: CounterExample[] = [];
  const faults: ProfileFault[] = [];
  try {
    for (const profile of view.profiles.keys()) {
      for (const family of families) {
        if (!hasFamily(view, profile, family)) continue;
        const { counterExamples: found, ...extent } = proveProfile(view, profile, family);
        profiles.push({ profile, family, ...extent });
        addAll(counterExamples, found);
        addAll(faults, faultsOf(view, profile, family));
      }
    }
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems;
    throw error;
  }
  return { profiles, counterExamples, faults };
}

function faultsOf(view: BundleView, profile: string, family: Family): readonly ProfileFault[] {
  const [declared, rules] = [declaredBaseTreatment(view, profile), baseTreatmentOf(view, profile, family)];
  return baseTreatmentKeys.flatMap((what) => {
    const [expected, found] = [declared[what], rules[what]];
    return expected === found ? [] : [{ profile, family, what, expected, found }];
  });
}

/** Problems that keep the first node of each profile from loading all of its rules. */
function linkProblems(view: BundleView): readonly Problem[] {
  return [...view.profiles.keys()].flatMap((profile) => {
    const [name] = nodesOfProfile(view, profile);
    if (name === undefined) return [];
    if (!modeFacts[view.profiles.get(profile)!.mode].hasTables) return tableProblems(view, profile, name);
    const node = resolveNode(view.files, name);
    if (!('version' in node)) return node;
    const linked = families.flatMap((family) => {
      const written = node.rules[family];
      if (!written) return [];
      const rules = fillRules(written, hostOf(nodeOf(view, name), family));
      if ('code' in rules) return [rules];
      return linkFlat(rules, family, (text, of) => view.memory.line(text, of), node.profile.mode).problems;
    });
    return [...linked, ...virtualProblems(node)];
  });
}

/** Problems that keep a node from loading its virtual servers and sets. */
function virtualProblems({ ipvs, profile }: ResolvedNode): readonly Problem[] {
  if (!ipvs) return [];
  const state = readIpvs(ipvs, profile.families, ipvsHost(profile, { ipv4: [], ipv6: [] }));
  return 'problems' in state ? state.problems : [];
}

/** Problems that keep a node of mode nftables from loading its table. Lines that are read here are not read again for flows. */
function tableProblems(view: BundleView, profile: string, name: string): readonly Problem[] {
  const withoutServices = [...view.files].filter(([path]) => readPath(path)?.kind !== 'service');
  const node = resolveNode(new Map(withoutServices), name);
  if (!('version' in node)) return node;
  try {
    nftStateOf(view, nodeOf(view, name), view.index(profile, 'ipv4').paths);
    return [];
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems;
    throw error;
  }
}

interface ProfileProof {
  readonly services: number;
  readonly flows: number;
  readonly headerSpace?: HeaderSpace;
  readonly counterExamples: readonly CounterExample[];
}

function proveProfile(view: BundleView, profile: string, family: Family): ProfileProof {
  const index = view.index(profile, family);
  const all = declaredIn(view, profile, family);
  const claims = Map.groupBy(all.flatMap(claimsOf), ({ destination }) => placeOf(destination));
  const named = destinationsOf(family, [{ index, paths: index.paths }]);
  const common = commonDestinations(view, profile, family);
  const unclaimed = common.filter((other) => !claims.has(placeOf({ ...other, kind: 'address' })));
  const carried = carriedBy(all, claims);
  const destinations = [...withClaims(withOtherPorts(named, all, carried), claims), ...unclaimed];
  const declarations: Declarations = {
    view,
    claimOf: new Map(destinations.map((destination) => [destination, claims.get(placeOf(destination))?.[0]])),
    trafficPolicy: provenModes[view.profiles.get(profile)!.mode].trafficPolicy(view, profile, family),
    carried,
    serviceCIDRs: namedCIDRs(view, profile),
  };
  const counterExamples: CounterExample[] = [];
  let flows = 0;
  const distinctions = (some: readonly Destination[]): Distinctions =>
    distinctionsOf(
      some.flatMap((destination) => declarations.claimOf.get(destination) ?? []),
      family,
    );
  const question = { profiles: [profile], family, destinations, nodes: nodesOfProfile(view, profile), distinctions };
  const node = headerSpaceNode(view, profile);
  const traced = new TracedPackets();
  for (const row of flowRows([view], question)) {
    flows++;
    if (row.nodes.nodes[0] === node) traced.add(row);
    const found = row.outcomes[0]!;
    const expected = expectation(declarations, row);
    if (isMet(expected, found)) continue;
    const { outcomes: _outcomes, ...flow } = row;
    counterExamples.push({ ...flow, expected, found });
  }
  const headerSpace = node === undefined ? {} : { headerSpace: headerSpaceOf(view, node, family, traced) };
  return { services: all.length, flows, ...headerSpace, counterExamples };
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
  readonly claimOf: ReadonlyMap<Destination, Claim | undefined>;
  readonly trafficPolicy: ProfileTrafficPolicy;
  /** In mode ipvs: the Services' own addresses, which every node carries; in mode nftables their ClusterIPs. */
  readonly carried: ReadonlySet<string>;
  /** In mode nftables: the networks in which packets to addresses that no Service has are dropped. */
  readonly serviceCIDRs: readonly string[];
}

type Claims = ReadonlyMap<string, readonly Claim[]>;

function carriedBy(all: readonly ServiceDeclaration[], claims: Claims): ReadonlySet<string> {
  const [first] = all;
  if (!first) return new Set();
  const { carries } = provenModes[first.mode];
  return new Set(
    [...claims.values()].flatMap(([claim]) => (claim && carries(claim.role) ? claim.destination.address || [] : [])),
  );
}

/** Adds other ports of ClusterIPs whose element is missing in mode nftables: they are not rejected then. */
function withOtherPorts(
  found: readonly Destination[],
  all: readonly ServiceDeclaration[],
  carried: ReadonlySet<string>,
): readonly Destination[] {
  if (!all[0] || !modeFacts[all[0].mode].dropsUnallocated) return found;
  const known = new Set(found.map(placeOf));
  const others = [...carried].map((address): Destination => ({ ...otherPortOf(address), services: [] }));
  return [...found, ...others.filter((one) => !known.has(placeOf(one)))];
}

/** Adds declared destinations that no rule names. */
function withClaims(found: readonly Destination[], claims: Claims): readonly Destination[] {
  const known = new Set(found.map(placeOf));
  const missing = [...claims].flatMap(([place, [claim]]) => (claim && !known.has(place) ? [claim.destination] : []));
  return [...found, ...missing].toSorted(compareDestinations);
}

function expectation(
  { view, claimOf, trafficPolicy, carried, serviceCIDRs }: Declarations,
  row: Omit<FlowRow, 'outcomes'>,
): CounterExample['expected'] {
  const { destination, family, source } = row;
  const claim = claimOf.get(destination);
  const node = nodeOf(view, row.nodes.nodes[0]!);
  if (claim) return expectedOf({ claim, node, family, source, trafficPolicy });
  if (destination.address === loopback[family]) return { kind: 'drop' };
  // Ports of such an address that no Service has are rejected, unless it is the node's own address.
  const isCarried = carried.has(destination.address) && destination.address !== factOf(node, family, 'address');
  if (isCarried) return { kind: 'reject' };
  return { kind: serviceCIDRs.some((cidr) => cidrContains(cidr, destination.address)) ? 'drop' : 'unclaimed' };
}

function isMet(expected: CounterExample['expected'], found: FlowOutcome): boolean {
  const { branches } = found;
  if (expected.kind === 'unclaimed')
    return branches.every(({ verdict, masquerade }) => verdict === 'pass' && !masquerade);
  if (expected.kind !== 'endpoints') {
    const { kind, masquerade = false } = expected;
    const [branch] = branches;
    if (branches.length !== 1 || branch?.verdict !== kind) return false;
    return branch.reject === undefined && branch.masquerade === masquerade;
  }
  return (
    found.affinity === expected.affinity &&
    found.scheduler === expected.scheduler &&
    branches.length === expected.branches.length &&
    branches.every((branch, at) => isBranch(branch, expected.branches[at]!))
  );
}

/** Compares shares to the precision of rules. */
function isBranch(found: Branch, { verdict, to, masquerade, share }: Branch): boolean {
  return (
    found.verdict === verdict &&
    found.to === to &&
    found.masquerade === masquerade &&
    Math.abs(found.share - share) < 1e-6
  );
}
