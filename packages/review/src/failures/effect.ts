import { clusterLists, localLists, usable } from '../bundle/endpoints.ts';
import { compareText } from '@sluice/netfilter';
import type { HeaderNote } from '@sluice/bundle';
import type { Outage, Survivors } from './failure.ts';
import type { DeclaredPort } from './ports.ts';
import { sharesOf } from './selection.ts';

/** What a failure does to one port of a Service. */
export interface PortEffect {
  readonly port: DeclaredPort;
  /** Endpoints before and after, as far as they are usable. */
  readonly before: number;
  readonly after: number;
  /** No node that is left has an endpoint to use: connections are rejected everywhere. */
  readonly isGone: boolean;
  /** Nodes that are left and have no endpoint to use any more, by what makes them need one of their own; in byte order. */
  readonly without: readonly { readonly policy: OwnEndpoints; readonly nodes: readonly string[] }[];
  /** Frontends on which no node answers clients from outside any more. */
  readonly dark: readonly string[];
  /** Zones whose hinted endpoints are gone, so that their traffic goes to other zones; in byte order. */
  readonly leaving: readonly string[];
  /**
   * The greatest share after the failure of an endpoint that gets more by it, and what that endpoint had before, 0 to 1 (`sharesOf`);
   * without an endpoint where none gets more.
   */
  readonly share: { readonly before: number; readonly after: number; readonly endpoint: string };
}

type LocalPolicy = 'internalTrafficPolicy Local' | 'externalTrafficPolicy Local';

/** Why nodes have no endpoint where other nodes have some: a policy, or what their profile declares (`profile edge`). */
type OwnEndpoints = LocalPolicy | `profile ${string}`;

/** Whether a failure does more than leave fewer endpoints. @param mostShare the share that one endpoint may get, 0 to 1 */
export function isBroken(effect: PortEffect, mostShare: number): boolean {
  const { isGone, without, dark } = effect;
  return isGone || without.length > 0 || dark.length > 0 || passes(effect, mostShare);
}

/**
 * Whether a failure gives an endpoint more than it may have, or still more: of two endpoints, which have a half each, the one that is
 * left counts for a limit of 40 %, too.
 */
export function passes({ isGone, share }: PortEffect, mostShare: number): boolean {
  return !isGone && share.after > mostShare + epsilon;
}

/** Sums of fractions differ in their last bits. */
const epsilon = 1e-9;

/** A port before anything fails. */
export interface Baseline {
  /** The number of usable endpoints. */
  readonly used: number;
  /** The nodes with usable endpoints of their own. */
  readonly locals: readonly string[];
  /** Whether one of these nodes is in the bundle. */
  readonly answers: boolean;
  /** The zones that have endpoints of their own by hints. */
  readonly hinted: readonly string[];
  /** By text. */
  readonly shares: ReadonlyMap<string, number>;
}

/** @param all the nodes of the bundle */
export function baselineOf(port: DeclaredPort, all: Survivors): Baseline {
  const locals = [...localLists(port.endpoints).keys()];
  return {
    used: usable(port.endpoints).length,
    locals,
    answers: locals.some((node) => all.has(node, port.profiles)),
    hinted: [...clusterLists(port.endpoints).byZone.keys()],
    shares: sharesOf(port, port.endpoints, all),
  };
}

/**
 * Judges a failure for one port.
 * @returns undefined when no endpoint that traffic uses is lost, and when other nodes are left but none of the port's profiles: this
 * declaration has no use then
 */
export function effectOn(port: DeclaredPort, old: Baseline, { isLost, survivors }: Outage): PortEffect | undefined {
  if (old.used === 0 || !port.endpoints.some((one) => isLost(one) && isServing(one))) return undefined;
  if (survivors.zones.size > 0 && survivors.byZone(port.profiles).size === 0) return undefined;
  const rest = port.endpoints.filter((endpoint) => !isLost(endpoint));
  const left = usable(rest).length;
  const isGone = left === 0 || survivors.zones.size === 0;
  const locals = localLists(rest);
  const stays = (node: string): boolean => survivors.has(node, port.profiles);
  const bereft = isGone ? [] : old.locals.filter((node) => stays(node) && !locals.has(node)).toSorted(compareText);
  return {
    port,
    before: old.used,
    after: left,
    isGone,
    without: bereft.length === 0 ? [] : localPolicies(port).map((policy) => ({ policy, nodes: bereft })),
    dark: isGone || goesDark(port, old, [...locals.keys()].some(stays)) ? port.outside : [],
    leaving: isGone ? [] : leaving(old, rest, survivors.byZone(port.profiles)),
    share: greatest(sharesOf(port, rest, survivors), old.shares),
  };
}

const isServing = ({ ready, terminating, serving }: HeaderNote): boolean => ready || (terminating && serving);

/** The policies of a port that look at a node's own endpoints alone. */
const localPolicies = ({
  internalPolicy,
  externalPolicy,
  outside,
  isOnLocalhost,
}: DeclaredPort): readonly LocalPolicy[] => [
  ...(internalPolicy === 'Local' ? (['internalTrafficPolicy Local'] as const) : []),
  ...(externalPolicy === 'Local' && (outside.length > 0 || isOnLocalhost)
    ? (['externalTrafficPolicy Local'] as const)
    : []),
];

/** With policy Local only nodes with endpoints answer clients from outside. @param answers whether such a node is left */
const goesDark = ({ externalPolicy }: DeclaredPort, old: Baseline, answers: boolean): boolean =>
  externalPolicy === 'Local' && old.answers && !answers;

/** Zones that are left, and had endpoints of their own by hints, but have none now. */
function leaving(
  { hinted }: Baseline,
  rest: readonly HeaderNote[],
  zones: ReadonlyMap<string | undefined, number>,
): readonly string[] {
  const { byZone } = clusterLists(rest);
  return hinted.filter((zone) => zones.has(zone) && !byZone.has(zone)).toSorted(compareText);
}

/** The endpoint that gets the greatest share by a failure; of equal ones that which had least before, then the first by text. */
function greatest(after: ReadonlyMap<string, number>, before: ReadonlyMap<string, number>): PortEffect['share'] {
  let found = { before: 0, after: 0, endpoint: '' };
  for (const [endpoint, share] of after) {
    const one = { before: before.get(endpoint) ?? 0, after: share, endpoint };
    if (one.after <= one.before + epsilon) continue;
    const more = one.after - found.after;
    const less = found.before - one.before;
    if (more > epsilon || (more > -epsilon && (less > epsilon || (less > -epsilon && endpoint < found.endpoint))))
      found = one;
  }
  return found;
}
