import { hash } from 'node:crypto';
import { compareText } from '../problem.ts';
import type { TransportProtocol } from '../rules/rule.ts';
import { familySuffix } from '../rules/nft-family.ts';
import { isNodePort, type NftFrontend } from './frontend.ts';
import { nftLimits } from './limits.ts';
import { listName } from './lists.ts';
import { slotsOf } from './slots.ts';

/** Half a or b of the slots: a release on probation keeps the lists of its changed frontends in the half that is not in use. */
export type Half = 'a' | 'b';

/** One element of the table as `nft -n` prints it: protocols are numbers. */
export interface TableElement {
  /** The set or map, such as `svc4`. */
  readonly set: string;
  /** `10.96.0.10 . 6 . 80` */
  readonly key: string;
  /** Of maps: `goto n3`; of sets `''`. */
  readonly value: string;
}

/** The elements of one frontend. */
export interface FrontendElements {
  /** What decides about packets: verdicts, policies, ranges. On probation the same, in the overlay. */
  readonly serving: readonly TableElement[];
  /** The lists of endpoints that the verdicts lead to. */
  readonly lists: readonly TableElement[];
  /** Those that other frontends may have, too: `cluster`, `loop`. */
  readonly shared: readonly TableElement[];
}

/** The numbers of protocols: nft opens /etc/protocols for each name that it reads. */
export const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const satisfies Record<TransportProtocol, number>;

/**
 * The elements of a frontend.
 * @param half of the slots, in which its lists are
 * @param overlay true: `serving` for the overlay of a release on probation, and the frontend's key in `tkey`
 */
export function frontendElements(frontend: NftFrontend, half: Half, overlay = false): FrontendElements {
  const { affinitySeconds } = frontend;
  const make = new Elements(frontend, half, overlay ? 't' : '');
  addServing(make, frontend, overlay);
  if (affinitySeconds === undefined) addSlots(make, frontend);
  else addSticky(make, frontend);
  for (const address of frontend.here ?? []) make.add('shared', 'loop', `${address} . ${address}`);
  if (frontend.isClusterIP) make.add('shared', 'cluster', frontend.address);
  return make;
}

/** The overlay of a frontend that a release on probation removes: nothing serves it. */
export function removedOverlay(
  frontend: Pick<NftFrontend, 'family' | 'address' | 'protocol' | 'port'>,
): readonly TableElement[] {
  const n = familySuffix[frontend.family];
  const key = numberedKey(frontend);
  return [
    { set: `tkey${n}`, key, value: '' },
    { set: `tsvc${n}`, key, value: 'accept' },
  ];
}

/** `10.96.0.10 . 6 . 80`: the key of a frontend in the kernel. */
export const numberedKey = ({ address, protocol, port }: Pick<NftFrontend, 'address' | 'protocol' | 'port'>): string =>
  `${address} . ${protocolNumbers[protocol]} . ${port}`;

/** Collects elements. */
class Elements implements FrontendElements {
  readonly serving: TableElement[] = [];
  readonly lists: TableElement[] = [];
  readonly shared: TableElement[] = [];
  readonly key: string;
  readonly half: Half;
  readonly #family: '4' | '6';
  readonly #prefix: '' | 't';

  constructor(frontend: NftFrontend, half: Half, prefix: '' | 't') {
    this.key = numberedKey(frontend);
    this.half = half;
    this.#family = familySuffix[frontend.family];
    this.#prefix = prefix;
  }

  serve(name: string, value = '', key = this.key): void {
    this.serving.push({ set: `${this.#prefix}${name}${this.#family}`, key, value });
  }

  add(part: 'lists' | 'shared', name: string, key: string, value = ''): void {
    this[part].push({ set: `${name}${this.#family}`, key, value });
  }
}

function addServing(make: Elements, frontend: NftFrontend, overlay: boolean): void {
  const { endpoints, local, outside, none, ranges } = frontend;
  const { list, localList } = listNames(frontend, make.half);
  if (overlay) make.serve('key');
  if (endpoints.length > 0) make.serve('svc', `goto ${list}`);
  // Without it a packet on probation would go on to the list of the active release.
  else if (overlay) make.serve('svc', 'accept');
  if (outside === 'cluster') make.serve('always');
  if (outside === 'local') {
    make.serve('near');
    if (local.length > 0) make.serve('out', `goto ${localList}`);
    else if (endpoints.length > 0) make.serve('out', 'accept');
  }
  if (none) make.serve('none', none === 'refuse' ? 'goto refuse' : 'drop');
  if (ranges.length > 0) make.serve('fw');
  for (const range of ranges) make.serve('allow', '', `${make.key} . ${range}`);
}

/** The names of the chains of a frontend's lists. */
export function listNames(frontend: NftFrontend, half: Half): { readonly list: string; readonly localList: string } {
  const { endpoints, local, affinitySeconds: seconds, scheduler } = frontend;
  const of = (list: readonly string[], isLocal: boolean): string =>
    listName({
      scheduler: scheduler ?? 'random',
      isLocal,
      count: slotsOf(frontend, list).length,
      ...(seconds === undefined ? {} : { seconds }),
      ...(scheduler === 'round-robin' ? { owner: ownerOf(frontend) } : {}),
      isNodePort: isNodePort(frontend),
      isHalfB: half === 'b',
    });
  return { list: of(endpoints, false), localList: of(local, true) };
}

/** Names a frontend in the name of a chain, where no address may be. */
const ownerOf = (frontend: NftFrontend): string => hash('sha256', numberedKey(frontend), 'hex').slice(0, 16);

/** The chains that the verdicts of a frontend lead to. */
export function chainsOf(frontend: NftFrontend, half: Half): readonly string[] {
  const { list, localList } = listNames(frontend, half);
  return [...(frontend.endpoints.length > 0 ? [list] : []), ...(frontend.local.length > 0 ? [localList] : [])];
}

const halfStart = { a: 0, b: 2 * nftLimits.endpointsMax } as const satisfies Record<Half, number>;

/** The slot of an endpoint by its place in the list. */
export const slotOf = (place: number, half: Half, isLocal: boolean): number =>
  halfStart[half] + (isLocal ? nftLimits.endpointsMax : 0) + place;

function addSlots(make: Elements, frontend: NftFrontend): void {
  const { protocol, address, port, endpoints, local } = frontend;
  const slot = (place: number, isLocal: boolean): string =>
    `${address} . ${port} . ${slotOf(place, make.half, isLocal)}`;
  for (const [place, endpoint] of slotsOf(frontend, endpoints).entries())
    make.add('lists', protocol, slot(place, false), endpoint);
  for (const [place, endpoint] of slotsOf(frontend, local).entries())
    make.add('lists', protocol, slot(place, true), endpoint);
}

/** With session affinity a slot leads to the id of an endpoint, which clients keep, and the id to the endpoint. */
function addSticky(make: Elements, frontend: NftFrontend): void {
  const { endpoints, local } = frontend;
  const { key, half } = make;
  const b = half === 'b' ? 'b' : '';
  make.add('lists', 'sticky', key);
  const lists = [
    [endpoints, false, `id${b}`],
    [local, true, `lid${b}`],
  ] as const;
  for (const [list, isLocal, ids] of lists) {
    const known = endpointIds(list);
    for (const [place, endpoint] of slotsOf(frontend, list).entries())
      make.add('lists', 'slot', `${key} . ${slotOf(place, half, isLocal)}`, known.get(endpoint));
    for (const [endpoint, id] of known) make.add('lists', ids, `${key} . ${id}`, endpoint);
  }
}

/**
 * The ids that clients remember, as `nft` prints a class: the first 32 bits of the SHA-256 of an endpoint. They are equal on every node and
 * in every release; only where two of a list would have the same one, the later in byte order has another.
 */
export function endpointIds(list: readonly string[]): ReadonlyMap<string, string> {
  const ids = new Map(list.map((endpoint) => [endpoint, idOf(endpoint)] as const));
  if (new Set(ids.values()).size === ids.size && ![...ids.values()].includes(noId)) return ids;
  const taken = new Set([noId]);
  return new Map(
    list.toSorted(compareText).map((endpoint) => {
      let id = idOf(endpoint);
      for (let attempt = 1; taken.has(id); attempt++) id = idOf(`${endpoint} ${attempt}`);
      taken.add(id);
      return [endpoint, id] as const;
    }),
  );
}

/** What `meta priority` has before it is set. */
const noId = '0:0';

function idOf(text: string): string {
  const digest = hash('sha256', text, 'hex');
  const part = (from: number): string => digest.slice(from, from + 4).replace(/^0+(?=.)/, '');
  return `${part(0)}:${part(4)}`;
}

/** The elements of the sets that a profile and the Services share, from the settings of a state. */
export function settingsElements(settings: readonly string[]): readonly TableElement[] {
  return settings.flatMap((setting) => {
    const [kind = '', value = ''] = setting.split(' ');
    if (kind === 'table') return [];
    // A port has no family: both sets have it, so that neither depends on the other.
    if (kind === 'health') return (['4', '6'] as const).map((n) => ({ set: `health${n}`, key: value, value: '' }));
    return [{ set: `${kind}${value.includes(':') ? '6' : '4'}`, key: value, value: '' }];
  });
}
