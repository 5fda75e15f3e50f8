import type { BundleFiles } from '@sluice/bundle';
import {
  addressOfEndpoint,
  compareText,
  type Family,
  getOrInsert,
  type Mode,
  modeFacts,
  modes,
  Stopped,
  TraceError,
} from '@sluice/netfilter';
import { type DeclaredFrontend, frontendsByPlace, declaredFrontends, declaredIn } from './declared.ts';
import { commonDestinations, destinationsOf, placeOf } from '../flows/destinations.ts';
import type { Destination, FlowOutcome } from '../flows/flow.ts';
import { flowRows, type FlowRow } from '../flows/flows.ts';
import { nodesOfProfile, factOf, nodeOf } from '../bundle/node.ts';
import { wholeProgram } from '../flows/layout.ts';
import { outcomeOf } from '../flows/outcome.ts';
import { asSent } from '../flows/program.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import { type BundleView, familiesOfProfile, hasFamily, viewOf } from '../bundle/view.ts';
import { type ModeDifference, differenceOf, isSameBut } from './mode-differences.ts';

/** The same Services under two profiles or in two layouts, compared flow by flow. */
export interface Comparison {
  readonly kind: 'profiles' | 'layouts';
  /** The two profiles, or the two layouts of one. */
  readonly between: readonly [string, string];
  /** The profile of the nodes that were compared. */
  readonly profile: string;
  readonly family: Family;
  readonly nodes: readonly string[];
  readonly flows: number;
  /** Documented differences by code, in byte order, with one example each. */
  readonly differences: readonly FoundDifference[];
  /** Flows whose outcomes differ without a documented reason. */
  readonly unexplained: readonly FlowRow[];
}

/** A documented difference, with the number of flows that show it. */
export interface FoundDifference {
  readonly code: ModeDifference;
  readonly flows: number;
  /** The Services that declare the destinations of these flows, in byte order; may be empty. */
  readonly services: readonly string[];
  readonly example: FlowRow;
}

/** Nodes compared per profile, spread evenly over all: each one links all rules again. */
const nodesMax = 4;

/**
 * Checks that a bundle's Services are equivalent in all modes, up to the documented differences, and in layouts
 * `flat` and `tree`, without exception.
 * @returns a comparison for each pair
 * @throws Stopped with the problems for which nodes would refuse the bundle
 */
export function compareModesAndLayouts(files: BundleFiles): readonly Comparison[] {
  const view = viewOf(files);
  return [...layoutComparisons(view), ...profileComparisons(view)];
}

function layoutComparisons(view: BundleView): readonly Comparison[] {
  const profiles = modes.filter((mode) => modeFacts[mode].hasServiceChains).flatMap((mode) => profilesOf(view, mode));
  return profiles.flatMap((profile) =>
    familiesOfProfile(view, profile).map((family): Comparison => {
      const nodes = someNodes(view, profile);
      const trees = new Map<string, NodeProgram>();
      const unexplained: FlowRow[] = [];
      let flows = 0;
      const destinations = allDestinations([view], [profile], family);
      for (const row of flowRows([view], { profiles: [profile], family, destinations, nodes })) {
        flows++;
        const name = row.nodes.nodes[0]!;
        const tree = getOrInsert(trees, name, () => wholeProgram(view, nodeOf(view, name), family, 'tree'));
        const inTree = outcomeIn(view, tree, row, name);
        if (!isSameOutcome(row.outcomes[0]!, inTree))
          unexplained.push({ ...row, outcomes: [row.outcomes[0]!, inTree] });
      }
      const between = ['flat', 'tree'] as const;
      return { kind: 'layouts', between, profile, family, nodes, flows, differences: [], unexplained };
    }),
  );
}

function outcomeIn(view: BundleView, program: NodeProgram, { packet, family }: FlowRow, name: string): FlowOutcome {
  const own = factOf(nodeOf(view, name), family, 'address');
  try {
    return outcomeOf(program, asSent(packet, program), own === undefined ? [] : [own]);
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    const hint = 'The two layouts cannot be compared; use layout flat on nodes of this profile';
    throw new Stopped([{ code: 'RULE_REFUSED', level: 'error', object: `Node ${name}`, message: error.message, hint }]);
  }
}

/** Compares every profile of a mode with every one of another mode, on the same nodes. */
function profileComparisons(view: BundleView): readonly Comparison[] {
  return modePairs.flatMap(([one, other]) =>
    profilesOf(view, one).flatMap((first) =>
      profilesOf(view, other).flatMap((second) =>
        familiesOfProfile(view, first)
          .filter((family) => hasFamily(view, second, family))
          .flatMap((family) => [
            comparison(view, [first, second], family, first),
            comparison(view, [first, second], family, second),
          ]),
      ),
    ),
  );
}

/** Declarations are read as in the first mode: one of health checks has more protocols in mode ipvs. */
const modePairs = [
  ['iptables', 'ipvs'],
  ['iptables', 'nftables'],
  ['nftables', 'ipvs'],
] as const satisfies readonly (readonly [Mode, Mode])[];

/** @param profile the nodes of this profile are compared */
function comparison(view: BundleView, between: readonly [string, string], family: Family, profile: string): Comparison {
  const nodes = someNodes(view, profile);
  const views = between.map((other) => withProfile(view, nodes, other));
  const frontends = frontendsByPlace(declaredIn(view, between[0], family).flatMap(declaredFrontends));
  const [one, other] = between.map((name) => view.profiles.get(name)!.mode) as [Mode, Mode];
  const found = new Map<ModeDifference, { flows: number; services: ReadonlySet<string>; example: FlowRow }>();
  const unexplained: FlowRow[] = [];
  let flows = 0;
  const destinations = allDestinations([view, view], between, family);
  for (const row of flowRows(views, { profiles: between, family, destinations, nodes })) {
    flows++;
    const [first, second] = row.outcomes as readonly [FlowOutcome, FlowOutcome];
    if (isSameOutcome(first, second) || isUnobservable(row, views[0]!, frontends)) continue;
    const frontend = frontends.get(placeOf(row.destination));
    const node = nodeOf(views[0]!, row.nodes.nodes[0]!);
    const code = differenceOf({ row, frontend, node, outcomes: { [one]: first, [other]: second } });
    const known = code && (found.get(code) ?? { flows: 0, services: new Set<string>(), example: row });
    if (!code || !known) unexplained.push(row);
    else {
      const services = new Set([...known.services, ...row.destination.services]);
      found.set(code, { ...known, flows: known.flows + 1, services });
    }
  }
  const differences = [...found]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([code, { services, ...rest }]) => ({ code, ...rest, services: [...services].toSorted(compareText) }));
  return { kind: 'profiles', between, profile, family, nodes, flows, differences, unexplained };
}

/**
 * Whether a difference cannot be observed. Packets of an endpoint start on the node that its slice names only, so hairpin masquerading matters only
 * there; modes iptables and nftables have it on every node. Packets of the node itself have one of its addresses, masqueraded or not.
 */
function isUnobservable(
  { source, nodes, outcomes, destination }: FlowRow,
  view: BundleView,
  frontends: ReadonlyMap<string, DeclaredFrontend>,
): boolean {
  const frontend = frontends.get(placeOf(destination));
  const [first, second] = outcomes as readonly [FlowOutcome, FlowOutcome];
  if (source.class === 'node') return frontend?.role !== 'cluster' && isSameBut(first, second, () => true);
  if (source.class !== 'endpoint') return false;
  const isElsewhere = (to: string): boolean =>
    frontend?.declared.notes.endpoints.find(({ text }) => text === to)?.node !== nodes.nodes[0];
  return isSameBut(first, second, (to) => addressOfEndpoint(to) === source.address && isElsewhere(to));
}

/** A view in which the named nodes have another profile. */
function withProfile(view: BundleView, names: readonly string[], profile: string): BundleView {
  const nodes = new Map(view.nodes);
  for (const name of names) nodes.set(name, { ...view.nodes.get(name)!, profile });
  return { ...view, nodes };
}

function allDestinations(
  views: readonly BundleView[],
  profiles: readonly string[],
  family: Family,
): readonly Destination[] {
  const indexes = views.map((view, at) => view.index(profiles[at]!, family));
  const named = destinationsOf(
    family,
    indexes.map((index) => ({ index, paths: index.paths })),
  );
  const common = views.flatMap((view, at) => commonDestinations(view, profiles[at]!, family));
  return [...named, ...new Map(common.map((one) => [placeOf(one), one])).values()];
}

/** The first, the last and some between them at even distances. */
function someNodes(view: BundleView, profile: string): readonly string[] {
  const names = nodesOfProfile(view, profile);
  if (names.length <= nodesMax) return names;
  return Array.from({ length: nodesMax }, (_, n) => names[Math.round((n * (names.length - 1)) / (nodesMax - 1))]!);
}

function profilesOf(view: BundleView, mode: Mode): readonly string[] {
  return [...view.profiles].flatMap(([name, profile]) => (profile.mode === mode ? [name] : [])).toSorted();
}

/** Whether two outcomes are equal for clients: shares of endpoints count, the way in which one is chosen does not. */
export const isSameOutcome = (a: FlowOutcome, b: FlowOutcome): boolean =>
  isSameBut(a, b) && a.branches.every(({ reject }, at) => reject === b.branches[at]!.reject);
