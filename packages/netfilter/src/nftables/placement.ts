import { Layered } from '../layered.ts';
import {
  chainsOf,
  type FrontendElements,
  frontendElements,
  type Half,
  removedOverlay,
  type TableElement,
} from './elements.ts';
import { type NftFrontend, readFrontend, readFrontendKey } from './frontend.ts';
import type { NftState } from './state.ts';

/**
 * What the table of mode nftables holds, without its elements, which follow from it. The half of the slots that a frontend uses is no
 * part of a state: only the kernel shows it.
 */
export interface Placement {
  /** What packets meet that no release on probation takes. */
  readonly state: NftState;
  /** The frontends whose lists are in half b. */
  readonly inHalfB: ReadonlyMap<string, true>;
  /** On probation: the frontends that change, with their lines in the release; undefined: it has no such frontend. */
  readonly overlay: ReadonlyMap<string, readonly string[] | undefined>;
  /** Elements that no verdict leads to any more, by frontend: they go when the packets that met them are gone. */
  readonly left: ReadonlyMap<string, readonly PlacedElement[]>;
  /** How many frontends have each shared element, by `sharedId`. */
  readonly uses: ReadonlyMap<string, number>;
  /** The chains of lists, each with the number of frontends that use it. Some that none uses stay: most come again. */
  readonly chains: ReadonlyMap<string, number>;
}

/** `serving` decides about packets; `lists` are what verdicts lead to; `shared` elements belong to several frontends. */
type Part = keyof FrontendElements;

export interface PlacedElement {
  readonly part: Part;
  readonly element: TableElement;
}

type ElementName = Pick<TableElement, 'set' | 'key'>;

/** Names an element: a set or map holds a key once. */
export const elementId = ({ set, key }: ElementName): string => `${set} ${key}`;

const ipv4 = /^(\d+)\.(\d+)\.(\d+)\.(\d+)$/;

/**
 * Names a shared element, which is an address in a set: in five bytes where it is IPv4, since 50,000 endpoints have as many of these
 * names. Others are longer.
 */
export function sharedId({ set, key }: ElementName): string {
  // `loop` has its address twice.
  const [address = ''] = key.split(' . ', 1);
  const octets = ipv4.exec(address)?.slice(1).map(Number);
  return octets ? String.fromCharCode(set.charCodeAt(0), ...octets) : `${set} ${address}`;
}

/** Sets that packets ask after another one had their frontend. `tnone` they ask always: it says what they met on probation. */
const gates: ReadonlyMap<string, string> = new Map([
  ...['tsvc', 'tout', 'tnone', 'tfw', 'talways', 'tnear'].map((name) => [name, 'tkey'] as const),
  ['tallow', 'tfw'],
  ['allow', 'fw'],
]);

/**
 * The element that leads packets to this one. Where both go, this one goes later: a packet may have read the first before the
 * transaction, and reads this one after it.
 */
export function gateOf({ set, key }: ElementName): ElementName | undefined {
  const gate = gates.get(set.slice(0, -1));
  return gate === undefined
    ? undefined
    : { set: `${gate}${set.slice(-1)}`, key: key.split(' . ').slice(0, 3).join(' . ') };
}

/** In which half of the table a frontend's endpoints are. @param key `frontendKey` */
export const halfOf = ({ inHalfB }: Pick<Placement, 'inHalfB'>, key: string): Half => (inHalfB.has(key) ? 'b' : 'a');
const otherHalf = (half: Half): Half => (half === 'a' ? 'b' : 'a');

/** Everything that the table has for a frontend, by the element's name. */
export function elementsOf(
  placement: Pick<Placement, 'state' | 'inHalfB' | 'overlay'>,
  key: string,
): Map<string, PlacedElement> {
  const found = new Map<string, PlacedElement>();
  const half = halfOf(placement, key);
  const add = (part: Part, elements: readonly TableElement[]): void => {
    for (const element of elements) found.set(elementId(element), { part, element });
  };
  const addAllParts = ({ serving, lists, shared }: FrontendElements): void => {
    add('serving', serving);
    add('lists', lists);
    add('shared', shared);
  };
  const lines = placement.state.frontends.get(key);
  if (lines) addAllParts(frontendElements(readFrontend(key, lines), half));
  if (!placement.overlay.has(key)) return found;
  const tried = placement.overlay.get(key);
  if (tried) addAllParts(frontendElements(readFrontend(key, tried), otherHalf(half), true));
  else add('serving', removedOverlay(readFrontendKey(key)));
  return found;
}

/** The chains of lists that a frontend needs. */
export function chainsFor(placement: Pick<Placement, 'state' | 'inHalfB' | 'overlay'>, key: string): readonly string[] {
  const half = halfOf(placement, key);
  const lines = placement.state.frontends.get(key);
  const tried = placement.overlay.get(key);
  const of = (text: readonly string[], its: Half): readonly string[] => chainsOf(readFrontend(key, text), its);
  return [...(lines ? of(lines, half) : []), ...(tried ? of(tried, otherHalf(half)) : [])];
}

/** A table that holds one state and nothing else. @param chains further chains of lists that it has */
export function settledPlacement(
  state: NftState,
  inHalfB: Placement['inHalfB'],
  chains: Iterable<string> = [],
): Placement {
  const uses = new Map<string, number>();
  const users = new Map<string, number>([...chains].map((chain) => [chain, 0]));
  for (const [key, lines] of state.frontends) {
    const frontend = readFrontend(key, lines);
    const half = halfOf({ inHalfB }, key);
    for (const chain of chainsOf(frontend, half)) users.set(chain, (users.get(chain) ?? 0) + 1);
    for (const id of sharedBy(frontend, half)) uses.set(id, (uses.get(id) ?? 0) + 1);
  }
  const none = new Map<string, never>();
  return { state, inHalfB: Layered.of(inHalfB), overlay: none, left: none, uses: Layered.of(uses), chains: users };
}

function sharedBy(frontend: NftFrontend, half: Half): ReadonlySet<string> {
  return new Set(frontendElements(frontend, half).shared.map(sharedId));
}

/** Collects elements of all frontends of a settled table, and those of its settings. */
export function allElements(placement: Placement): ReadonlyMap<string, PlacedElement> {
  const found = new Map<string, PlacedElement>();
  for (const key of placement.state.frontends.keys())
    for (const [id, placed] of elementsOf(placement, key)) found.set(id, placed);
  return found;
}
