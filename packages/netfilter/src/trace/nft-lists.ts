import { endpointIds, listNames, slotOf } from '../nftables/elements.ts';
import { type NftFrontend, printNftEndpoint } from '../nftables/frontend.ts';
import { slotsOf } from '../nftables/slots.ts';
import type { PrintedEndpoint } from '../packet/flow.ts';
import type { RuleHit } from '../packet/packet.ts';
import { compareText } from '../problem.ts';
import { parseAddress } from '../rules/address.ts';
import { familySuffix } from '../rules/nft-family.ts';

/** The first slot of each endpoint, and how many it has. */
function placesOf(slots: readonly string[]): ReadonlyMap<string, { first: number; count: number }> {
  const places = new Map<string, { first: number; count: number }>();
  for (const [slot, endpoint] of slots.entries()) {
    const place = places.get(endpoint);
    if (place) place.count++;
    else places.set(endpoint, { first: slot, count: 1 });
  }
  return places;
}

/** What a list of a frontend does to packets: one of these. */
export interface Choice {
  /** Of new clients. */
  readonly share: number;
  /** `10.244.1.5:8080`: what session affinity remembers. */
  readonly endpoint: PrintedEndpoint;
  /** The element of the map that decides. */
  readonly hit: RuleHit;
}

/** A list of a frontend: the element that leads to its chain, and what that chooses from. */
export interface List {
  readonly hit: RuleHit;
  readonly choices: readonly Choice[];
}

/** Both lists of a frontend. */
export interface Lists {
  readonly all: List;
  readonly ofNode: List;
}

export function listsOf(frontend: NftFrontend): Lists {
  const { key, family } = frontend;
  const { list, localList } = listNames(frontend, 'a');
  const n = familySuffix[family];
  return {
    all: { hit: hitOf(`svc${n}`, `${key} : goto ${list}`), choices: choicesIn(frontend, false) },
    ofNode: { hit: hitOf(`out${n}`, `${key} : goto ${localList}`), choices: choicesIn(frontend, true) },
  };
}

export const hitOf = (chain: string, rule: string): RuleHit => ({ table: 'nftables', chain, rule });

/** One choice per endpoint that has slots, its share by their number; the first of them is shown. */
function choicesIn(frontend: NftFrontend, isLocal: boolean): readonly Choice[] {
  const { key, address, protocol, port: from, affinitySeconds, family } = frontend;
  const n = familySuffix[family];
  const list = isLocal ? frontend.local : frontend.endpoints;
  const slots = slotsOf(frontend, list);
  const ids = affinitySeconds === undefined ? undefined : endpointIds(list);
  const placed = placesOf(slots);
  const choices = list.flatMap((endpoint): Choice | readonly [] => {
    const end = endpoint.indexOf(' ');
    const destination = parseAddress(endpoint.slice(0, end));
    const place = placed.get(endpoint);
    if (!destination || !place) return [];
    const slot = slotOf(place.first, 'a', isLocal);
    const port = Number(endpoint.slice(endpoint.lastIndexOf(' ') + 1));
    return {
      share: place.count / slots.length,
      endpoint: { destination, port, text: printNftEndpoint(endpoint) },
      hit: ids
        ? hitOf(`${isLocal ? 'lid' : 'id'}${n}`, `${key} . ${ids.get(endpoint)} : ${endpoint}`)
        : hitOf(`${protocol}${n}`, `${address} . ${from} . ${slot} : ${endpoint}`),
    };
  });
  // As outcomes are sorted.
  return choices.toSorted((a, b) => compareText(a.endpoint.text, b.endpoint.text));
}
