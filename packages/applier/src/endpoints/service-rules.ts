import type { TableProgram } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import { addressOf } from './approved.ts';
import { bodiesOf, type Choices, isInPlace, readChoices, withoutTag } from './choices.ts';

export { withoutTag };

/** The endpoints of one Service in nat, and the rules that lead to them. */
export interface ServiceRules extends Choices {
  /** The other rules of its chain; `*` in the place of those that choose an endpoint. */
  readonly frame: readonly string[];
}

/** Whether a chain chooses an endpoint of a Service, in either layout. */
export const isService = (name: string): boolean => /^(?:SLU|KUBE)-SV[CL]-/.test(name);
/** Whether a chain is that of an endpoint, or of a group of endpoints. */
export const isEndpoint = (name: string): boolean => /^(?:SLU|KUBE)-(?:SEP|GRP)-/.test(name);

const isChoice = (body: string): boolean => isInPlace(body) || / -[jg] (?:SLU|KUBE)-(?:SEP|GRP)-\S+$/.test(body);

/**
 * Reads the chain of a Service.
 * @returns undefined if its rules are not of the form that `sluice render` writes, so that endpoints cannot be told from other rules
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
 * Whether a Service differs by its endpoints alone, within the bounds of an endpoint update: it keeps endpoints, loses one or at most
 * `limits.endpointsLostShareMax` of them at once, and its rules are the same, in the same order, except for the addresses and the
 * number of endpoints.
 * @param isApproved whether a new endpoint may have this address (`approvedBy`)
 * @param loss how many of its endpoints it may lose
 */
export function onlyEndpointsDiffer(
  before: ServiceRules | undefined,
  after: ServiceRules | undefined,
  isApproved: (address: string) => boolean,
  loss: LossBound = 'few',
): boolean {
  if (!before || !after || before.frame.join('\n') !== after.frame.join('\n')) return false;
  if (!sameChoices(before, after)) return false;
  const fresh = [...after.endpoints.keys()].filter((one) => !before.endpoints.has(one));
  return withinLossBound[loss](before.endpoints, after.endpoints) && fresh.every((one) => isApproved(addressOf(one)));
}

/** Whether the rules that choose are the same: of a kept endpoint exactly, of a new one like those of some other. */
function sameChoices(before: Choices, after: Choices): boolean {
  if (before.pattern !== after.pattern || !sameOrder(before, after)) return false;
  const forms = new Set([...before.endpoints.values()].map(({ form }) => form));
  return [...after.endpoints].every(([to, { form, chain }]) => {
    const own = before.endpoints.get(to);
    return own ? own.form === form && own.chain === chain : forms.has(form);
  });
}

/** Whether kept endpoints are in the same order: a client that two of them remember goes to the first. */
function sameOrder(before: Choices, after: Choices): boolean {
  const kept = (some: Choices, others: Choices): string =>
    some.affinityOrder.filter((one) => others.endpoints.has(one)).join();
  return kept(before, after) === kept(after, before);
}

/** Whether a Service keeps endpoints, and loses one or at most `limits.endpointsLostShareMax` of them. */
export function losesFew(before: Keys, after: Keys): boolean {
  const lost = [...before.keys()].filter((one) => !after.has(one)).length;
  return after.size > 0 && lost <= Math.max(1, before.size * limits.endpointsLostShareMax);
}

/** Whether a Service has about as many endpoints as before, or more; all of them may be new. */
export function keepsMost(before: Keys, after: Keys): boolean {
  return after.size > 0 && before.size - after.size <= Math.max(1, before.size * limits.endpointsLostShareMax);
}

/** `few`: `losesFew`; `most`: all, if it gets about as many others (`keepsMost`); `any`: as long as one endpoint is left. */
export type LossBound = 'few' | 'most' | 'any';

export const withinLossBound: Readonly<Record<LossBound, (before: Keys, after: Keys) => boolean>> = {
  few: losesFew,
  most: keepsMost,
  any: (_before, after) => after.size > 0,
};

type Keys = Pick<ReadonlyMap<string, unknown>, 'has' | 'keys' | 'size'>;

const isMasquerade = (body: string): boolean => / -j (?:KUBE|SLUICE)-MARK-MASQ$/.test(body);
/** Whether connections of an endpoint to itself are masqueraded; for endpoints in place this is done after nat. */
const hairpin = (form: string): boolean =>
  form.startsWith('in place ') || form.split('\n').some((body) => body.startsWith(' -s * ') && isMasquerade(body));

/**
 * Checks that the new chain of a Service that gets its first endpoints looks like one of `sluice render`: before its endpoints it may
 * only masquerade; if the Service has its other chain already (policy Local), the rules of endpoints are like those there; and hairpin
 * connections are masqueraded if those of other Services are.
 * @param from the active table, without these chains
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

/** The other chain of a Service: that of the endpoints of this node for that of all endpoints, and the reverse. */
const otherChain = (name: string): string => name.replace(/-SV[CL]-/, (kind) => (kind === '-SVC-' ? '-SVL-' : '-SVC-'));

function isWritten({ frame, affinityOrder, endpoints }: ServiceRules): boolean {
  const isFrame = frame.at(-1) === '*' && frame.length <= 2 && frame.slice(0, -1).every(isMasquerade);
  return (
    isFrame &&
    [...endpoints.values()].every(({ form }) => form.includes(' --set --name *') === affinityOrder.length > 0)
  );
}

function isAsIn(own: Choices, other: Choices | undefined): boolean {
  const forms = new Set([...(other?.endpoints.values() ?? [])].map(({ form }) => form));
  return own.pattern === other?.pattern && [...own.endpoints.values()].every(({ form }) => forms.has(form));
}

/** Whether hairpin connections are treated like those of another Service. */
function reachThemselves(own: Choices, other: Choices | undefined): boolean {
  const [known] = other?.endpoints.values() ?? [];
  return !known || [...own.endpoints.values()].every(({ form }) => hairpin(form) === hairpin(known.form));
}
