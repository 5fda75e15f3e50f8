import {
  addressesHere,
  anyAddress,
  compareText,
  familySuffix,
  type Family,
  frontendKey,
  frontendLines,
  localhostOf,
  type NftState,
  type NftFrontend,
  type NftTableOptions,
  protocolNumbers,
  readFrontend,
  readListName,
  slotCounts,
  slotOf,
  tableLine,
  type TransportProtocol,
} from '@sluice/netfilter';
import { hasTable, type ObservedNft } from './observed.ts';

/**
 * Reads back the state that a table holds by default, for a node that lost its state directory: without what is on probation, and
 * without lists that nothing refers to.
 *
 * Weights are those of `like` where they lead to the same slots. Others are numbers of slots: the kernel has no more of them, so that
 * weights 2 and 4 read back as 1 and 2, and those of a table by hash only nearly.
 * @param like a state that the table may hold
 * @returns undefined if this version of Sluice does not write such a table
 */
export function decodeTable(observed: ObservedNft, like?: NftState): NftState | undefined {
  const table = tableLineOf(observed);
  if (table === undefined) return undefined;
  const frontends = new Map<string, readonly string[]>();
  for (const family of ['ipv4', 'ipv6'] as const)
    for (const [key, lines] of frontendsOf(new FamilyElements(observed, family), like)) frontends.set(key, lines);
  return { settings: [table, ...settingsOf(observed)], frontends };
}

function tableLineOf(observed: ObservedNft): string | undefined {
  const rules = observed.chains.get('services4') ?? [];
  const name = /iifname != "([^"]+)"/.exec(rules.join('\n'))?.[1];
  const detector: NftTableOptions['detector'] = name === undefined ? 'address' : { interface: name };
  const endpointCounters = observed.parts.has('counters of tcp4');
  const localhost = localhostOf((chain) => observed.chains.has(chain));
  return [false, true]
    .flatMap((masqueradeAll) =>
      [false, true].flatMap((tcpReset) =>
        localhost.map((own) => tableLine({ detector, masqueradeAll, tcpReset, endpointCounters, ...own })),
      ),
    )
    .find((line) => hasTable(observed, [line]));
}

function settingsOf({ elements }: ObservedNft): readonly string[] {
  const keys = (set: string): readonly string[] => [...(elements.get(set)?.keys() ?? [])].toSorted(compareText);
  const networks = ['pods', 'keep', 'node', 'cidr'].flatMap((kind) =>
    [...keys(`${kind}4`), ...keys(`${kind}6`)].map((network) => `${kind} ${network}`),
  );
  return [...networks, ...keys('health4').map((port) => `health ${port}`)];
}

const protocolOf: ReadonlyMap<string, TransportProtocol> = new Map(
  (['tcp', 'udp', 'sctp'] as const).map((name) => [String(protocolNumbers[name]), name]),
);

/** The elements of one family. */
class FamilyElements {
  readonly #observed: ObservedNft;
  readonly #n: '4' | '6';

  constructor(observed: ObservedNft, family: Family) {
    this.#observed = observed;
    this.#n = familySuffix[family];
  }

  of(name: string): ReadonlyMap<string, string> {
    return this.#observed.elements.get(`${name}${this.#n}`) ?? new Map();
  }

  /** The endpoints of the slots that a verdict leads to. */
  slots(key: string, verdict: string | undefined): readonly string[] {
    const name = listOf(verdict);
    if (!name) return [];
    const [address = '', number = '', port = ''] = key.split(' . ');
    const { isLocal } = name;
    const half = name.isHalfB ? 'b' : 'a';
    const at = (place: number): string | undefined => {
      const slot = slotOf(place, half, isLocal);
      if (name.seconds === undefined)
        return this.of(protocolOf.get(number) ?? '').get(`${address} . ${port} . ${slot}`);
      const id = this.of('slot').get(`${key} . ${slot}`);
      return this.of(`${isLocal ? 'lid' : 'id'}${name.isHalfB ? 'b' : ''}`).get(`${key} . ${id}`);
    };
    return Array.from({ length: name.count }, (_, place) => at(place)).filter((one) => one !== undefined);
  }
}

const listOf = (verdict: string | undefined): ReturnType<typeof readListName> =>
  readListName(/^goto (\S+)$/.exec(verdict ?? '')?.[1] ?? '');

/** Lists by their slots. */
type Lists = Pick<NftFrontend, 'endpoints' | 'local' | 'scheduler' | 'weights'>;

/** @param like the frontend with the weights that it may have */
function listsOf(all: readonly string[], local: readonly string[], like: Lists): Lists {
  const own = { endpoints: [...new Set(all)], local: [...new Set(local)] };
  const { scheduler, weights } = like;
  const chooser = { ...(scheduler ? { scheduler } : {}), ...(weights ? { weights } : {}) };
  const isLike = (list: readonly string[], slots: readonly string[]): boolean => {
    const counts = slotCounts(chooser, list);
    return counts.size === list.length && list.every((one) => counts.get(one) === countOf(slots).get(one));
  };
  if (isLike(own.endpoints, all) && isLike(own.local, local)) return { ...own, ...chooser };
  if (weights) return listsOf(all, local, { ...own, ...(scheduler ? { scheduler } : {}) });
  // Of endpoints in both lists the whole one counts.
  return { ...own, ...(scheduler ? { scheduler } : {}), weights: new Map([...countOf(local), ...countOf(all)]) };
}

const countOf = (slots: readonly string[]): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>();
  for (const one of slots) counts.set(one, (counts.get(one) ?? 0) + 1);
  return counts;
};

function* frontendsOf(
  elements: FamilyElements,
  like: NftState | undefined,
): Generator<readonly [string, readonly string[]]> {
  const sets = ['svc', 'out', 'none', 'near', 'always', 'fw'].map((name) => elements.of(name));
  const ranges = rangesByKey(elements.of('allow').keys());
  for (const key of new Set(sets.flatMap((set) => [...set.keys()]))) {
    const [address = '', number = '', port = ''] = key.split(' . ');
    const protocol = protocolOf.get(number);
    if (protocol === undefined) continue;
    const [svc, out, none] = [elements.of('svc').get(key), elements.of('out').get(key), elements.of('none').get(key)];
    const lists = [svc, out].flatMap((verdict) => listOf(verdict) ?? []);
    const affinity = lists.find(({ seconds }) => seconds !== undefined)?.seconds;
    const scheduler = lists.find((one) => one.scheduler !== 'random')?.scheduler;
    const isLocal = elements.of('near').has(key);
    const own = frontendKey({ address, protocol, port: Number(port) });
    const known = like?.frontends.get(own);
    const { weights } = known ? readFrontend(own, known) : {};
    const chosen = listsOf(elements.slots(key, svc), elements.slots(key, out), {
      endpoints: [],
      local: [],
      ...(scheduler === undefined || scheduler === 'random' ? {} : { scheduler }),
      ...(weights ? { weights } : {}),
    });
    yield [
      own,
      frontendLines({
        isClusterIP: !isAny(address) && elements.of('cluster').has(address),
        ...(isLocal ? { outside: 'local' } : elements.of('always').has(key) ? { outside: 'cluster' } : {}),
        ...(affinity === undefined ? {} : { affinitySeconds: affinity }),
        ...(none === undefined ? {} : { none: none === 'drop' ? 'drop' : 'refuse' }),
        ranges: (ranges.get(key) ?? []).toSorted(compareText),
        ...chosen,
        here: addressesHere(chosen, (pod) => elements.of('loop').has(`${pod} . ${pod}`)),
      }),
    ];
  }
}

const isAny = (address: string): boolean => Object.values<string>(anyAddress).includes(address);

function rangesByKey(keys: Iterable<string>): ReadonlyMap<string, readonly string[]> {
  const ranges = new Map<string, string[]>();
  for (const key of keys) {
    const end = key.lastIndexOf(' . ');
    const own = ranges.get(key.slice(0, end)) ?? [];
    ranges.set(key.slice(0, end), [...own, key.slice(end + 3)]);
  }
  return ranges;
}
