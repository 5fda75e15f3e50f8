import { type Address, type Cidr, type Family, parseAddress, parseCidr } from '@sluice/bundle';
import { baseRulesOf } from './base-rules.ts';
import { addressOf, keyOf, serviceOf } from './destinations.ts';
import type { Destination } from './flow.ts';
import { factOf, nodeOf } from './node.ts';
import { portOf } from './reach.ts';
import type { View } from './view.ts';

/** Two bundles with the profiles and the family in question. */
export interface Sides {
  readonly views: readonly View[];
  readonly profiles: readonly string[];
  readonly family: Family;
}

/**
 * Puts destinations together that differ in nothing but names. Where only base files and nodes differ between two bundles, what
 * happens to the traffic of one Service happens to that of all whose rules become the same text when chains, ports and addresses
 * are numbered: unless somebody else names one of those. So such an address counts as another one by each network that holds it
 * and that a base file, a profile or a node of either bundle names, and a port that a base file names stays as it is.
 * @returns groups of one for what has to be looked at by itself
 */
export function alikeDestinations(
  sides: Sides,
  destinations: readonly Destination[],
): readonly (readonly Destination[])[] {
  const named = namedBy(sides);
  const isClaimed = hasClaimedNode(sides);
  let alone = 0;
  const groups = Map.groupBy(destinations, (destination) => {
    const text = isClaimed && destination.kind === 'node-port' ? undefined : ownText(sides, destination);
    return (text === undefined ? undefined : shapeOf(text, destination, named)) ?? alone++;
  });
  return [...groups.values()];
}

/** Whether some node's address is a Service's as well: there a node port meets other rules on that node. */
function hasClaimedNode({ views, profiles, family }: Sides): boolean {
  return views.some((view, at) => {
    const { addresses } = view.index(profiles[at]!, family);
    return [...view.nodes.keys()].some((name) => addresses.has(factOf(nodeOf(view, name), family, 'address') ?? ''));
  });
}

/**
 * The lines that packets to a destination meet, when they are of one Service and the same in both bundles. Lines of mode ipvs are those of
 * IPv4: what has IPv6 is looked at by itself.
 */
function ownText({ views, profiles, family }: Sides, destination: Destination): string | undefined {
  const address = addressOf(destination, family, 'node');
  if (address === undefined) return undefined;
  const texts = views.map((view, at) => {
    const paths = view.index(profiles[at]!, family).relevant(keyOf(destination, address));
    const isOne = new Set(paths.map(serviceOf)).size === 1 && (family === 'ipv4' || !paths.some(isVirtual));
    // What is elsewhere for a rule may be anywhere; in mode ipvs it is another port of an address that the Service has.
    if (!isOne || (destination.kind === 'elsewhere' && !paths.every(isVirtual))) return undefined;
    return paths.map((path) => (isVirtual(path) ? ofIPv4 : String)(view.files.get(path) ?? '')).join('\n');
  });
  const [first] = texts;
  return texts.every((text) => text === first) ? first : undefined;
}

const isVirtual = (path: string): boolean => /\.(?:ipset|ipvs)$/.test(path);

/** Lines of the other family stand in the same files. */
const ofIPv4 = (text: string): string => text.replaceAll(/^.*(?:\[| KUBE-6-).*\n/gm, '');

/** What others than Services name. */
interface Named {
  /** Networks by the length of their prefix, so that few questions find those that hold an address. */
  readonly networks: ReadonlyMap<number, ReadonlySet<string>>;
  readonly ports: ReadonlySet<string>;
}

const loopback = { ipv4: '127.0.0.0/8', ipv6: '::1/128' } as const satisfies Record<Family, string>;

function namedBy({ views, profiles, family }: Sides): Named {
  const texts = new Set<string>([loopback[family]]);
  const ports = new Set<string>();
  for (const [at, view] of views.entries()) {
    for (const { rule } of baseRulesOf(view, profiles[at]!, family)) {
      for (const test of [rule.source, rule.destination]) if (test) texts.add(test.value);
      if (rule.target?.kind === 'dnat') texts.add(rule.target.address);
      const port = portOf(rule);
      if (port !== undefined) ports.add(String(port));
    }
    const profile = view.profiles.get(profiles[at]!);
    for (const text of [...(profile?.nodePortAddresses ?? []), ...valuesIn(profile?.values)]) texts.add(text);
    for (const { values } of view.nodes.values()) for (const text of valuesIn(values)) texts.add(text);
  }
  const cidrs = [...texts].flatMap((text) => cidrOf(text) ?? []).filter((cidr) => cidr.family === family);
  const byPrefix = Map.groupBy(cidrs, ({ prefix }) => prefix);
  return {
    networks: new Map([...byPrefix].map(([prefix, list]) => [prefix, new Set(list.map(({ text }) => text))])),
    ports,
  };
}

/** Every text among values, whatever it is called: a network is known by its form. */
function valuesIn(values: unknown): readonly string[] {
  if (typeof values === 'string') return [values];
  return typeof values === 'object' && values !== null ? Object.values(values).flatMap(valuesIn) : [];
}

function cidrOf(text: string): Cidr | undefined {
  return parseCidr(text.includes('/') ? text : `${text}/${text.includes(':') ? 128 : 32}`);
}

const chainForm = /KUBE-(SVC|SVL|EXT|FW|SEP)-[A-Z2-7]{16}/g;
const commentForm = / -m comment --comment (?:"[^"\\]*"|[\w/:.-]+)/g;
const addressForm = /( -[sd] |--to-destination \[?)([0-9.]+|[0-9a-f:]+)(?=[ \]:]|$)/gm;
const portForm = /(--dport |--to-destination \S*:)(\d+)(?= |$)/gm;

/** Entries of sets, virtual servers and real ones. */
const virtualForm = /(?:add|-[Aa] (?:-[tu]|--sctp-service)) .*$/gm;

/** A file's lines with everything numbered in the order in which it comes; undefined for those that ask for networks of their own. */
function shapeOf(text: string, { kind, address, port, protocol }: Destination, named: Named): string | undefined {
  const rules = text.replaceAll(/^#.*\n/gm, '').replaceAll(commentForm, '');
  if (/[0-9a-f]\/\d/.test(rules)) return undefined;
  const numbers = new Map<string, string>();
  const numbered = (what: string, name: string): string => {
    const known = numbers.get(name) ?? `${what}${numbers.size}`;
    numbers.set(name, known);
    return known;
  };
  const ofAddress = (host: string): string => numbered(`address in ${holding(host, named)} `, host);
  const ofPort = (number: string): string => (named.ports.has(number) ? number : numbered('port ', `port ${number}`));
  const to = `${kind} ${protocol} ${address === '' ? '' : ofAddress(address)} ${ofPort(String(port))}`;
  const shape = rules
    .replaceAll(virtualForm, (line) =>
      line
        .replaceAll(/(?<=:)\d+|(?<=^add \S+ )\d+$/g, (number) => ofPort(number))
        .replaceAll(/(?<![\d.])(?:\d+\.){3}\d+(?![\d./])/g, (host) => ofAddress(host)),
    )
    .replaceAll(chainForm, (chain, of: string) => numbered(`${of} `, chain))
    .replaceAll(portForm, (_, before: string, number: string) => `${before}${ofPort(number)}`)
    .replaceAll(addressForm, (_, before: string, host: string) => `${before}${ofAddress(host)}`);
  return `${to}\n${shape}`;
}

const holders = new WeakMap<Named, Map<string, string>>();

/** The networks that hold an address, as a text. */
function holding(host: string, named: Named): string {
  const known = holders.get(named) ?? new Map<string, string>();
  holders.set(named, known);
  const done = known.get(host);
  if (done !== undefined) return done;
  const address = parseAddress(host);
  const found = address === undefined ? host : networksOf(address, named);
  known.set(host, found);
  return found;
}

function networksOf({ text }: Address, { networks }: Named): string {
  return [...networks]
    .flatMap(([prefix, own]) => {
      const network = parseCidr(`${text}/${prefix}`)?.text ?? '';
      return own.has(network) ? [network] : [];
    })
    .join(' ');
}
