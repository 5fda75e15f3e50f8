import type { Family } from '../family.ts';
import { type Address, parseAddress } from '../rules/address.ts';
import { forbiddenAddress, parseCidr } from '../rules/cidr.ts';
import { isTransport } from '../rules/cursor.ts';
import { readNumber } from '../rules/parts.ts';
import type { RuleError, TransportProtocol } from '../rules/rule.ts';
import { anyAddress, frontendKey } from './frontend.ts';
import { nftLimits } from './limits.ts';
import { networkText } from './networks.ts';
import { type NftScheduler, readMaglevSize } from './scheduler.ts';

/** One element of a line of a `.nft` file. */
export type NftElement =
  /** Served by its list of endpoints (`svc`), or from outside by the local one (`out`). */
  | {
      readonly kind: 'svc' | 'out';
      readonly key: string;
      readonly affinitySeconds?: number;
      readonly scheduler?: NftScheduler;
    }
  | { readonly kind: 'always' | 'near' | 'fw'; readonly key: string }
  | { readonly kind: 'none'; readonly key: string; readonly verdict: 'refuse' | 'drop' }
  | { readonly kind: 'allow'; readonly key: string; readonly range: string }
  | { readonly kind: 'endpoint' | 'local'; readonly key: string; readonly endpoint: string; readonly weight?: number }
  | { readonly kind: 'cluster' | 'loop'; readonly address: string }
  | { readonly kind: 'health'; readonly port: string }
  | { readonly kind: 'pods' | 'keep' | 'node' | 'cidr'; readonly network: string };

/** A line as a value. */
interface NftLine {
  readonly family: Family;
  readonly elements: readonly NftElement[];
}

const lineForm = /^add element inet sluice ([a-z]+)([46]) \{ (.+) \}$/;

/** kube-proxy's own limit of a session's time-out is a day. */
const affinityMax = 86_400;

/**
 * Reads one line. The grammar is closed: the sets and maps of the format's page, each with its own form of elements.
 * @param text without guard; of the variables only those that the linker fills
 * @returns the line, or why it is not valid
 */
export function readNftLine(text: string): NftLine | RuleError {
  const match = lineForm.exec(text);
  if (!match) return { error: 'the line is not of the form `add element inet sluice NAME { ELEMENT, … }`' };
  const [, name, suffix, body] = match as unknown as [string, string, '4' | '6', string];
  const family = suffix === '4' ? 'ipv4' : 'ipv6';
  const read = Object.hasOwn(readers, name) ? readers[name as keyof typeof readers] : undefined;
  if (!read) return { error: `${name}${suffix} is not a set or map of a bundle` };
  const elements: NftElement[] = [];
  for (const one of body.split(', ')) {
    const element = read(one, family);
    if (!element) return { error: `${JSON.stringify(one)} is not a valid element of ${name}${suffix}` };
    elements.push(element);
  }
  return { family, elements };
}

type ReadElement = (text: string, family: Family) => NftElement | undefined;

const readers = {
  svc: (text, family) => readList(text, family, 'svc'),
  out: (text, family) => readList(text, family, 'out'),
  always: (text, family) => withKey(text, family, (key) => ({ kind: 'always', key })),
  near: (text, family) => withKey(text, family, (key) => ({ kind: 'near', key })),
  fw: (text, family) => withKey(text, family, (key) => ({ kind: 'fw', key })),
  none: readNone,
  allow: readAllow,
  tcp: (text, family) => readEndpoint(text, family, 'tcp'),
  udp: (text, family) => readEndpoint(text, family, 'udp'),
  sctp: (text, family) => readEndpoint(text, family, 'sctp'),
  cluster: (text, family) => (isAddress(text, family) ? { kind: 'cluster', address: text } : undefined),
  loop: readLoop,
  health: (text) => (isPort(text) ? { kind: 'health', port: text } : undefined),
  pods: (text, family) => readNetwork(text, family, 'pods'),
  keep: (text, family) => readNetwork(text, family, 'keep'),
  node: (text, family) => readNetwork(text, family, 'node'),
  cidr: (text, family) => readNetwork(text, family, 'cidr'),
} as const satisfies Record<string, ReadElement>;

/** The sets of `base/last.nft`; all others are in files of Services. */
export const isBaseElement = ({ kind }: NftElement): boolean =>
  kind === 'pods' || kind === 'keep' || kind === 'node' || kind === 'cidr';

const listForms = {
  svc: /^goto (p?)(?:n\$\{count\}|s\$\{count\}t([1-9][0-9]*)|([ih])\$\{count\}|m([1-9][0-9]*))$/,
  out: /^goto (p?)(?:l\$\{localCount\}|r\$\{localCount\}t([1-9][0-9]*)|([ih])l\$\{localCount\}|ml([1-9][0-9]*))$/,
} as const;

function readList(text: string, family: Family, kind: 'svc' | 'out'): NftElement | undefined {
  const [start = '', verdict = '', ...rest] = text.split(' : ');
  const match = listForms[kind].exec(verdict);
  if (!match || rest.length > 0) return undefined;
  const [, prefix, time, letter, size] = match;
  const seconds = time === undefined ? undefined : readNumber(time, 1, affinityMax);
  if (time !== undefined && seconds === undefined) return undefined;
  const scheduler = schedulerOf(letter, size);
  if ((letter ?? size) !== undefined && scheduler === undefined) return undefined;
  return withKey(start, family, (key, address) =>
    (prefix === 'p') === (address === anyAddress[family])
      ? {
          kind,
          key,
          ...(seconds === undefined ? {} : { affinitySeconds: seconds }),
          ...(scheduler === undefined ? {} : { scheduler }),
        }
      : undefined,
  );
}

function schedulerOf(letter: string | undefined, size: string | undefined): NftScheduler | undefined {
  if (letter !== undefined) return letter === 'i' ? 'round-robin' : 'source-hash';
  const slots = readMaglevSize(size);
  return slots === undefined ? undefined : `maglev ${slots}`;
}

function readNone(text: string, family: Family): NftElement | undefined {
  const [start = '', verdict, ...rest] = text.split(' : ');
  if (rest.length > 0 || (verdict !== 'goto refuse' && verdict !== 'drop')) return undefined;
  return withKey(start, family, (key) => ({ kind: 'none', key, verdict: verdict === 'drop' ? 'drop' : 'refuse' }));
}

function readAllow(text: string, family: Family): NftElement | undefined {
  const end = text.lastIndexOf(' . ');
  const range = networkOf(text.slice(end + 3), family);
  if (end < 0 || range === undefined) return undefined;
  return withKey(text.slice(0, end), family, (key) => ({ kind: 'allow', key, range }));
}

/** Frontend, `${slot}` (of an endpoint with weight 3 `${slot:3}`), endpoint. One match: nearly all lines of a bundle are such elements. */
const endpointForm = /^([^ ]+) \. ([0-9]+) \. \$\{(slot|localSlot)(?::([1-9][0-9]*))?\} : (([^ ]+) \. ([0-9]+))$/;

function readEndpoint(text: string, family: Family, protocol: TransportProtocol): NftElement | undefined {
  const match = endpointForm.exec(text);
  if (!match) return undefined;
  const address = match[1]!;
  const port = match[2]!;
  const list = match[3];
  const given = match[4];
  const endpoint = match[5]!;
  const target = match[6]!;
  const targetPort = match[7]!;
  const weight = given === undefined ? undefined : readNumber(given, 2, nftLimits.weightMax);
  if (given !== undefined && weight === undefined) return undefined;
  const to = addressIn(target, family);
  const isValid = isAddress(address, family) && isPort(port) && to !== undefined && isPort(targetPort);
  if (!isValid || forbiddenAddress(to) !== undefined) return undefined;
  const key = frontendKey({ address, protocol, port: Number(port) });
  const kind = list === 'slot' ? 'endpoint' : 'local';
  return { kind, key, endpoint, ...(weight === undefined ? {} : { weight }) };
}

/** An endpoint of the node with itself: source and destination. */
function readLoop(text: string, family: Family): NftElement | undefined {
  const [address = '', ...rest] = text.split(' . ');
  const here = rest.length === 1 && rest[0] === address ? addressIn(address, family) : undefined;
  return here && forbiddenAddress(here) === undefined ? { kind: 'loop', address } : undefined;
}

function withKey(
  text: string,
  family: Family,
  make: (key: string, address: string) => NftElement | undefined,
): NftElement | undefined {
  const [address = '', protocol = '', port = '', ...rest] = text.split(' . ');
  const isKey = rest.length === 0 && isAddress(address, family) && isTransport(protocol) && isPort(port);
  return isKey ? make(text, address) : undefined;
}

function readNetwork(text: string, family: Family, kind: 'pods' | 'keep' | 'node' | 'cidr'): NftElement | undefined {
  const network = networkOf(text, family);
  return network === undefined ? undefined : { kind, network };
}

const isPort = (text: string): boolean => readNumber(text, 1, 65_535) !== undefined;

/** Only the canonical spelling: the kernel prints no other, and states are compared as text. */
function addressIn(text: string, family: Family): Address | undefined {
  const address = parseAddress(text);
  return address?.family === family && address.text === text ? address : undefined;
}

const isAddress = (text: string, family: Family): boolean => addressIn(text, family) !== undefined;

/** An address, or a network without bits after its prefix, as the kernel prints it: a network of one address is an address. */
function networkOf(text: string, family: Family): string | undefined {
  const cidr = parseCidr(text);
  if (!cidr) return isAddress(text, family) ? text : undefined;
  return cidr.family === family && cidr.text === text ? networkText(cidr) : undefined;
}
