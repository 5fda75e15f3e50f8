import {
  addressesHere,
  anyAddress,
  compareText,
  familySuffix,
  type Family,
  frontendKey,
  frontendLines,
  type NftState,
  type NftTableOptions,
  protocolNumbers,
  readListName,
  slotOf,
  tableLine,
  type TransportProtocol,
} from '@sluice/netfilter';
import { hasTable, type ObservedNft } from './observed.ts';

/**
 * Reads back the state that a table holds by default, for a node that lost its state directory: without what is on probation, and
 * without lists that nothing refers to.
 * @returns undefined if this version of Sluice does not write such a table
 */
export function decodeTable(observed: ObservedNft): NftState | undefined {
  const table = tableLineOf(observed);
  if (table === undefined) return undefined;
  const frontends = new Map<string, readonly string[]>();
  for (const family of ['ipv4', 'ipv6'] as const)
    for (const [key, lines] of frontendsOf(new FamilyElements(observed, family))) frontends.set(key, lines);
  return { settings: [table, ...settingsOf(observed)], frontends };
}

function tableLineOf(observed: ObservedNft): string | undefined {
  const rules = observed.chains.get('services4') ?? [];
  const name = /iifname != "([^"]+)"/.exec(rules.join('\n'))?.[1];
  const detector: NftTableOptions['detector'] = name === undefined ? 'address' : { interface: name };
  return [false, true]
    .flatMap((masqueradeAll) => [false, true].map((tcpReset) => tableLine({ detector, masqueradeAll, tcpReset })))
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

  /** The endpoints that a verdict leads to, in the order of their slots. */
  list(key: string, verdict: string | undefined): readonly string[] {
    const name = readListName(/^goto (\S+)$/.exec(verdict ?? '')?.[1] ?? '');
    if (!name) return [];
    const [address = '', number = '', port = ''] = key.split(' . ');
    const isLocal = name.kind === 'l' || name.kind === 'r';
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

function* frontendsOf(elements: FamilyElements): Generator<readonly [string, readonly string[]]> {
  const sets = ['svc', 'out', 'none', 'near', 'always', 'fw'].map((name) => elements.of(name));
  const ranges = rangesByKey(elements.of('allow').keys());
  for (const key of new Set(sets.flatMap((set) => [...set.keys()]))) {
    const [address = '', number = '', port = ''] = key.split(' . ');
    const protocol = protocolOf.get(number);
    if (protocol === undefined) continue;
    const [svc, out, none] = [elements.of('svc').get(key), elements.of('out').get(key), elements.of('none').get(key)];
    const seconds = [svc, out].map((verdict) => readListName((verdict ?? '').slice('goto '.length))?.seconds);
    const affinity = seconds.find((one) => one !== undefined);
    const isLocal = elements.of('near').has(key);
    const lists = { endpoints: elements.list(key, svc), local: elements.list(key, out) };
    yield [
      frontendKey({ address, protocol, port: Number(port) }),
      frontendLines({
        isClusterIP: !isAny(address) && elements.of('cluster').has(address),
        ...(isLocal ? { outside: 'local' } : elements.of('always').has(key) ? { outside: 'cluster' } : {}),
        ...(affinity === undefined ? {} : { affinitySeconds: affinity }),
        ...(none === undefined ? {} : { none: none === 'drop' ? 'drop' : 'refuse' }),
        ranges: (ranges.get(key) ?? []).toSorted(compareText),
        ...lists,
        here: addressesHere(lists, (pod) => elements.of('loop').has(`${pod} . ${pod}`)),
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
