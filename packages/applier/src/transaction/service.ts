import type { TableProgram } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { addressOf } from './approved.ts';
import { bodiesOf, type Choices, isInPlace, readChoices, withoutTag } from './choices.ts';

export { withoutTag };

/** The endpoints of one Service in nat, and what rules lead to them. */
export interface ServiceRules extends Choices {
  /** What a client meets besides endpoints, rule by rule; `*` where an endpoint is chosen. */
  readonly frame: readonly string[];
}

/** Whether a chain chooses an endpoint of a Service, in either layout. */
export const isService = (name: string): boolean => /^(?:SLU|KUBE)-SV[CL]-/.test(name);
/** Whether a chain is that of an endpoint, or of a group of these. */
export const isEndpoint = (name: string): boolean => /^(?:SLU|KUBE)-(?:SEP|GRP)-/.test(name);

const isChoice = (body: string): boolean => isInPlace(body) || / -[jg] (?:SLU|KUBE)-(?:SEP|GRP)-\S+$/.test(body);

/**
 * Reads what stands behind a Service's chain.
 * @returns undefined when that is not what `sluice render` writes: then nobody can say what is an endpoint more or less there
 */
export function readService(chain: string, table: TableProgram): ServiceRules | undefined {
  const bodies = bodiesOf(chain, table);
  const first = bodies.findIndex(isChoice);
  if (first < 0) return undefined;
  const end = bodies.findLastIndex(isChoice) + 1;
  const choices = readChoices(bodies.slice(first, end), table);
  return choices && { ...choices, frame: [...bodies.slice(0, first), '*', ...bodies.slice(end)] };
}

/**
 * Whether a Service differs by its endpoints alone, within the bounds of what goes in without a trial: it keeps endpoints, loses
 * one or at most `limits.endpointsLostShareMax` of them at once, and all its rules are what they were, in their order, but for the
 * addresses and the number of endpoints.
 * @param isApproved whether an endpoint may come at this address (`approvedBy`)
 * @param loss how many of its endpoints it may lose
 */
export function onlyEndpointsDiffer(
  before: ServiceRules | undefined,
  after: ServiceRules | undefined,
  isApproved: (address: string) => boolean,
  loss: Loss = 'few',
): boolean {
  if (!before || !after || before.frame.join('\n') !== after.frame.join('\n')) return false;
  if (!sameWays(before, after)) return false;
  const fresh = [...after.endpoints.keys()].filter((one) => !before.endpoints.has(one));
  return withinLoss[loss](before.endpoints, after.endpoints) && fresh.every((one) => isApproved(addressOf(one)));
}

/** Whether what leads to endpoints is what led to them: to those that were there, exactly so; to others, as to one of these. */
function sameWays(before: Choices, after: Choices): boolean {
  if (before.manner !== after.manner || !sameOrder(before, after)) return false;
  const forms = new Set([...before.endpoints.values()].map(({ form }) => form));
  return [...after.endpoints].every(([to, { form, chain }]) => {
    const own = before.endpoints.get(to);
    return own ? own.form === form && own.chain === chain : forms.has(form);
  });
}

/** Of two endpoints that know a client the first one gets it. */
function sameOrder(before: Choices, after: Choices): boolean {
  const kept = (some: Choices, others: Choices): string => some.asked.filter((one) => others.endpoints.has(one)).join();
  return kept(before, after) === kept(after, before);
}

/** Whether a Service keeps endpoints, and loses one or at most `limits.endpointsLostShareMax` of them. */
export function losesFew(before: Keys, after: Keys): boolean {
  const lost = [...before.keys()].filter((one) => !after.has(one)).length;
  return after.size > 0 && lost <= Math.max(1, before.size * limits.endpointsLostShareMax);
}

/** Whether a Service has about as many endpoints as before, or more, whichever they are. */
export function keepsMost(before: Keys, after: Keys): boolean {
  return after.size > 0 && before.size - after.size <= Math.max(1, before.size * limits.endpointsLostShareMax);
}

/** `most`: if it gets about as many others; `any`: if one is left. */
export type Loss = 'few' | 'most' | 'any';

export const withinLoss: Readonly<Record<Loss, (before: Keys, after: Keys) => boolean>> = {
  few: losesFew,
  most: keepsMost,
  any: (_before, after) => after.size > 0,
};

type Keys = Pick<ReadonlyMap<string, unknown>, 'has' | 'keys' | 'size'>;

const isMasquerade = (body: string): boolean => / -j (?:KUBE|SLUICE)-MARK-MASQ$/.test(body);
/** In place this is done for all of them behind nat. */
const hairpin = (form: string): boolean =>
  form.startsWith('in place ') || form.split('\n').some((body) => body.startsWith(' -s * ') && isMasquerade(body));

/**
 * Says whether a Service's chain that comes with its first endpoints is what `sluice render` writes, as far as that can be told: before
 * its endpoints it masquerades and no more; where the Service has its other chain already (policy Local), all is done for endpoints as
 * there; and connections of an endpoint to itself are masqueraded if they are for others.
 * @param from what stands, without these chains
 */
export function usualIn(from: TableProgram): (chain: string, rules: ServiceRules) => boolean {
  let active: ReadonlyMap<string, string> | undefined;
  return (chain, rules) => {
    active ??= new Map([...from.chains.keys()].filter(isService).map((name) => [withoutTag(name), name]));
    const own = active.get(otherChain(withoutTag(chain)));
    if (!isWritten(rules)) return false;
    if (own !== undefined) return isAsIn(rules, readService(own, from));
    const [any] = active.values();
    return any === undefined || reachThemselves(rules, readService(any, from));
  };
}

/** From the chain with all endpoints of a Service to that with those of this node, and back. */
const otherChain = (name: string): string => name.replace(/-SV[CL]-/, (kind) => (kind === '-SVC-' ? '-SVL-' : '-SVC-'));

function isWritten({ frame, asked, endpoints }: ServiceRules): boolean {
  const isFrame = frame.at(-1) === '*' && frame.length <= 2 && frame.slice(0, -1).every(isMasquerade);
  return isFrame && [...endpoints.values()].every(({ form }) => form.includes(' --set --name *') === asked.length > 0);
}

function isAsIn(own: Choices, other: Choices | undefined): boolean {
  const forms = new Set([...(other?.endpoints.values() ?? [])].map(({ form }) => form));
  return own.manner === other?.manner && [...own.endpoints.values()].every(({ form }) => forms.has(form));
}

/** Whether endpoints reach themselves as those of another Service do. */
function reachThemselves(own: Choices, other: Choices | undefined): boolean {
  const [known] = other?.endpoints.values() ?? [];
  return !known || [...own.endpoints.values()].every(({ form }) => hairpin(form) === hairpin(known.form));
}
