import { serviceOf } from '@sluice/bundle';
import {
  getOrInsert,
  hasLines,
  networkOf,
  type Address,
  type Family,
  matchedPort,
  parseAddress,
  parseCidr,
  perKey,
} from '@sluice/netfilter';
import { baseRulesOf } from './base-rules.ts';
import { addressOf, keyOf } from './destinations.ts';
import type { Destination } from './flow.ts';
import { claimedAddresses } from './flows.ts';
import { toolAt } from '../bundle/tools.ts';
import type { BundleView } from '../bundle/view.ts';

/** Two bundles with the compared profiles and the family. */
interface Sides {
  readonly views: readonly BundleView[];
  readonly profiles: readonly string[];
  readonly family: Family;
}

/**
 * Groups destinations that differ in names only. Where only base files and nodes differ between two bundles, traffic of one Service
 * changes as that of all Services whose rules become the same text when chains, ports and addresses are numbered, unless a base file,
 * a profile or a node names one of them. Therefore the numbered form of an address includes the networks named there that contain it,
 * and a port that a base file names keeps its number.
 * @returns groups of equivalent destinations; a destination that has to be traced by itself is a group of one
 */
export function equivalentDestinations(
  sides: Sides,
  destinations: readonly Destination[],
): readonly (readonly Destination[])[] {
  const named = namedBy(sides);
  // Where a Service has the address of a node, node ports match further rules.
  const isClaimed = claimedAddresses(sides.views, sides.profiles, sides.family).size > 0;
  let alone = 0;
  const groups = Map.groupBy(destinations, (destination) => {
    const text = isClaimed && destination.kind === 'node-port' ? undefined : ownText(sides, destination);
    return (text === undefined ? undefined : shapeOf(text, destination, named)) ?? alone++;
  });
  return [...groups.values()];
}

/**
 * The lines that packets to a destination can match, if they are of one Service and the same in both bundles. For modes ipvs and nftables only
 * IPv4 has such a text: IPv6 destinations are traced one by one.
 */
function ownText({ views, profiles, family }: Sides, destination: Destination): string | undefined {
  const address = addressOf(destination, family, 'node');
  if (address === undefined) return undefined;
  const texts = views.map((view, at) => {
    const paths = view.index(profiles[at]!, family).relevant(keyOf(destination, address));
    const isOne = new Set(paths.map(serviceOf)).size === 1 && (family === 'ipv4' || !paths.some(isVirtual));
    // `elsewhere` may be any address; in these modes it is another port of the Service's own address.
    if (!isOne || (destination.kind === 'elsewhere' && !paths.every(isVirtual))) return undefined;
    return paths.map((path) => (isVirtual(path) ? ofIPv4 : String)(view.files.get(path) ?? '')).join('\n');
  });
  const [first] = texts;
  return texts.every((text) => text === first) ? first : undefined;
}

const isVirtual = (path: string): boolean => hasLines(toolAt(path).tool);

/** Drops the lines of IPv6, which are in the same files. */
const ofIPv4 = (text: string): string => text.replaceAll(/^.*(?:\[| KUBE-6-| sluice [a-z]+6 ).*\n/gm, '');

/** Networks and ports that base files, profiles and nodes name. */
interface NamedInBase {
  /** Networks by prefix length, so that few lookups find those that contain an address. */
  readonly networks: ReadonlyMap<number, ReadonlySet<string>>;
  readonly ports: ReadonlySet<string>;
}

const loopback = { ipv4: '127.0.0.0/8', ipv6: '::1/128' } as const satisfies Record<Family, string>;

function namedBy({ views, profiles, family }: Sides): NamedInBase {
  const texts = new Set<string>([loopback[family]]);
  const ports = new Set<string>();
  for (const [at, view] of views.entries()) {
    for (const { rule } of baseRulesOf(view, profiles[at]!, family)) {
      for (const test of [rule.source, rule.destination]) if (test) texts.add(test.value);
      if (rule.target?.kind === 'dnat') texts.add(rule.target.address);
      const port = matchedPort(rule);
      if (port !== undefined) ports.add(String(port));
    }
    const profile = view.profiles.get(profiles[at]!);
    for (const text of [...(profile?.nodePortAddresses ?? []), ...valuesIn(profile?.values)]) texts.add(text);
    for (const { values } of view.nodes.values()) for (const text of valuesIn(values)) texts.add(text);
  }
  const cidrs = [...texts].flatMap((text) => networkOf(text) ?? []).filter((cidr) => cidr.family === family);
  const byPrefix = Map.groupBy(cidrs, ({ prefix }) => prefix);
  return {
    networks: new Map([...byPrefix].map(([prefix, list]) => [prefix, new Set(list.map(({ text }) => text))])),
    ports,
  };
}

/** All texts among values: networks are recognised by their form, not by their key. */
function valuesIn(values: unknown): readonly string[] {
  if (typeof values === 'string') return [values];
  return typeof values === 'object' && values !== null ? Object.values(values).flatMap(valuesIn) : [];
}

const chainForm = /KUBE-(SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}/g;
const commentForm = / -m comment --comment (?:"[^"\\]*"|[\w/:.-]+)/g;
const addressForm = /( -[sd] |--to-destination \[?)([0-9.]+|[0-9a-f:]+)(?=[ \]:]|$)/gm;
const portForm = /(--dport |--to-destination \S*:)(\d+)(?= |$)/gm;

/** Entries of sets, virtual servers and real ones, elements of the table of mode nftables. */
const virtualForm = /(?:add|-[Aa] (?:-[tu]|--sctp-service)) .*$/gm;

/** The lines of a file with names numbered in order of appearance; undefined for lines that match networks of their own. */
function shapeOf(text: string, { kind, address, port, protocol }: Destination, named: NamedInBase): string | undefined {
  const rules = text.replaceAll(/^#.*\n/gm, '').replaceAll(commentForm, '');
  if (/[0-9a-f]\/\d/.test(rules)) return undefined;
  const numbers = new Map<string, string>();
  const numbered = (what: string, name: string): string => getOrInsert(numbers, name, () => `${what}${numbers.size}`);
  const ofAddress = (host: string): string => numbered(`address in ${holding(host, named)} `, host);
  const ofPort = (number: string): string => (named.ports.has(number) ? number : numbered('port ', `port ${number}`));
  const to = `${kind} ${protocol} ${address === '' ? '' : ofAddress(address)} ${ofPort(String(port))}`;
  const shape = rules
    .replaceAll(virtualForm, (line) =>
      line
        .replaceAll(/(?<=(?<![sS]lot):)\d+|(?<=^add \S+ )\d+$|(?<= \. )\d+(?=[ ,])/g, (number) => ofPort(number))
        .replaceAll(/(?<![\d.])(?:\d+\.){3}\d+(?![\d./])/g, (host) => ofAddress(host)),
    )
    .replaceAll(chainForm, (chain, of: string) => numbered(`${of} `, chain))
    .replaceAll(portForm, (_, before: string, number: string) => `${before}${ofPort(number)}`)
    .replaceAll(addressForm, (_, before: string, host: string) => `${before}${ofAddress(host)}`);
  return `${to}\n${shape}`;
}

const holders = perKey<NamedInBase, string>();

/** The networks that contain an address, as a text. */
function holding(host: string, named: NamedInBase): string {
  return holders(named, host, () => {
    const address = parseAddress(host);
    return address === undefined ? host : networksOf(address, named);
  });
}

function networksOf({ text }: Address, { networks }: NamedInBase): string {
  return [...networks]
    .flatMap(([prefix, own]) => {
      const network = parseCidr(`${text}/${prefix}`)?.text ?? '';
      return own.has(network) ? [network] : [];
    })
    .join(' ');
}
