import { type BundleFiles, compareText, type Family, linkFlat, type Problem, resolveNode } from '@sluice/bundle';
import {
  type Claim,
  claimsOf,
  type Declared,
  declaredIn,
  type Expected,
  expectedOf,
  type Manners,
} from './declared.ts';
import { compareDestinations, destinationsOf, commonDestinations, loopback, serviceOf } from './destinations.ts';
import type { Branch, Destination, FlowOutcome } from './flow.ts';
import { flowRows, type FlowRow, nodesOfProfile } from './flows.ts';
import { mannersOf } from './manners.ts';
import { nodeOf, ReviewStopped } from './program.ts';
import { hasFamily, type View, viewOf } from './view.ts';

/** Traffic that does not go where the Services say. */
export interface CounterExample extends Omit<FlowRow, 'outcomes'> {
  readonly expected: Expected | { readonly kind: 'unclaimed' };
  readonly found: FlowOutcome;
}

/** What was looked at, and what is wrong. */
export interface Proof {
  readonly profiles: readonly {
    readonly profile: string;
    readonly family: Family;
    readonly services: number;
    readonly flows: number;
  }[];
  readonly counterExamples: readonly CounterExample[];
  /** Services whose choice among endpoints by hints was taken from the rules. */
  readonly hinted: readonly string[];
}

/**
 * Checks for every profile, node and Service that traffic from every source class goes where the comment block of the Service's
 * file declares: to all usable endpoints with equal shares, or turned away as the policies say; and that no address which
 * nobody declares leads anywhere.
 * @returns the proof with its counter-examples, or why nodes would refuse the bundle
 */
export function proveBundle(files: BundleFiles): Proof | readonly Problem[] {
  const view = viewOf(files);
  if (!('index' in view)) return view;
  const refused = linkProblems(view);
  if (refused.length > 0) return refused;
  const profiles: Proof['profiles'][number][] = [];
  const counterExamples: CounterExample[] = [];
  const hinted = new Set<string>();
  try {
    for (const profile of view.profiles.keys()) {
      for (const family of ['ipv4', 'ipv6'] as const) {
        if (!hasFamily(view, profile, family)) continue;
        const done = proveProfile(view, profile, family);
        profiles.push({ profile, family, services: done.services, flows: done.flows });
        counterExamples.push(...done.counterExamples);
        for (const service of done.hinted) hinted.add(service);
      }
    }
  } catch (error) {
    if (error instanceof ReviewStopped) return error.problems;
    throw error;
  }
  return { profiles, counterExamples, hinted: [...hinted].toSorted(compareText) };
}

/** What keeps the first node of each profile from loading the whole of its rules. */
function linkProblems(view: View): readonly Problem[] {
  return [...view.profiles.keys()].flatMap((profile) => {
    const [name] = nodesOfProfile(view, profile);
    if (name === undefined) return [];
    const node = resolveNode(view.files, name);
    if (!('version' in node)) return node;
    return (['ipv4', 'ipv6'] as const).flatMap((family) => {
      const rules = node.rules[family];
      return rules ? linkFlat(rules, family, (text, of) => view.memory.line(text, of)).problems : [];
    });
  });
}

interface Done {
  readonly services: number;
  readonly flows: number;
  readonly counterExamples: readonly CounterExample[];
  readonly hinted: readonly string[];
}

function proveProfile(view: View, profile: string, family: Family): Done {
  const index = view.index(profile, family);
  const all = index.paths.map((path) => declaredAt(view, path));
  const claims = Map.groupBy(all.flatMap(claimsOf), ({ destination }) => placeOf(destination));
  const named = destinationsOf(family, [{ index, paths: index.paths }]);
  const destinations = [...withClaims(named, claims), ...commonDestinations(view, profile, family)];
  const manners = mannersOf(view, profile, family);
  const counterExamples: CounterExample[] = [];
  let flows = 0;
  const question = { profiles: [profile], family, destinations, nodes: nodesOfProfile(view, profile) };
  for (const { outcomes, ...row } of flowRows([view], question)) {
    flows++;
    const found = outcomes[0]!;
    const expected = expectation(view, row, claims.get(placeOf(row.destination)) ?? [], manners);
    const affinity = affinityOf(claims.get(placeOf(row.destination)) ?? []);
    if (!isMet(expected, found, row, affinity)) counterExamples.push({ ...row, expected, found });
  }
  const hinted = all.filter((declared) => declared.hinted).map(({ service }) => service);
  return { services: all.length, flows, counterExamples, hinted };
}

function declaredAt(view: View, path: string): Declared {
  const file = view.memory.file(path, view.files.get(path)!);
  if (!('sections' in file)) throw new ReviewStopped(file);
  return declaredIn(serviceOf(path), file);
}

const placeOf = ({ kind, address, port, protocol }: Destination): string => `${kind} ${address} ${port} ${protocol}`;

/** A declared destination that no rule knows must be asked for as well. */
function withClaims(
  found: readonly Destination[],
  claims: ReadonlyMap<string, readonly Claim[]>,
): readonly Destination[] {
  const known = new Set(found.map(placeOf));
  const missing = [...claims].flatMap(([place, [claim]]) => (claim && !known.has(place) ? [claim.destination] : []));
  return [...found, ...missing].toSorted(compareDestinations);
}

function expectation(
  view: View,
  row: Omit<FlowRow, 'outcomes'>,
  claims: readonly Claim[],
  manners: Manners,
): CounterExample['expected'] {
  const [claim] = claims;
  if (!claim) return { kind: row.destination.address === loopback[row.family] ? 'drop' : 'unclaimed' };
  return expectedOf(claim, nodeOf(view, row.nodes.nodes[0]!), row.family, row.source, manners);
}

function affinityOf(claims: readonly Claim[]): string | undefined {
  const seconds = claims[0]?.declared.notes.affinitySeconds;
  return seconds === undefined ? undefined : `${seconds} s`;
}

function isMet(
  expected: CounterExample['expected'],
  found: FlowOutcome,
  { source }: Omit<FlowRow, 'outcomes'>,
  affinity: string | undefined,
): boolean {
  const { branches } = found;
  if (expected.kind === 'unclaimed')
    return branches.every(({ verdict, masquerade }) => verdict === 'pass' && !masquerade);
  if (expected.kind !== 'endpoints') {
    return branches.length === 1 && branches[0]?.verdict === expected.kind && branches[0].reject === undefined;
  }
  if (found.affinity !== affinity) return false;
  const named = branches.every((branch) => branch.to !== undefined && expected.all.includes(branch.to));
  const whole = expected.some ? branches.length > 0 : branches.length === expected.all.length;
  return (
    named && whole && branches.every((branch) => isFair(branch, branches.length, expected.masquerade, source.address))
  );
}

/** An equal share, masqueraded as it must be; an endpoint that meets itself always is. */
function isFair({ to, share, masquerade }: Branch, count: number, masked: boolean, source: string): boolean {
  const isSelf = to?.slice(0, to.lastIndexOf(':')).replaceAll(/[[\]]/g, '') === source;
  return Math.abs(share - 1 / count) < 1e-6 && masquerade === (masked || isSelf);
}
