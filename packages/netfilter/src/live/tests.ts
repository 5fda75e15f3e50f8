import { type Address, parseAddress } from '../rules/address.ts';
import { type Cidr, isInCidr, networkOf, parseCidr } from '../rules/cidr.ts';
import type { TraceFlow } from '../packet/flow.ts';
import type { LiveHook, LiveTest, SourceTest } from './rule.ts';

export const unknown: LiveTest = () => undefined;
export const always: LiveTest = () => 1;
const yes = (is: boolean): 0 | 1 => (is ? 1 : 0);

/** The opposite; of chance, too. */
export const not =
  (test: LiveTest): LiveTest =>
  (flow, hook) => {
    const found = test(flow, hook);
    return found === undefined ? undefined : 1 - found;
  };

/** `::ffff:0.0.0.0/96`, as tools print IPv4 addresses in those of IPv6, with groups of four digits. */
export const withoutDots = (text: string): string =>
  text.replace(/^([0-9a-f:]*:)(\d+)\.(\d+)\.(\d+)\.(\d+)/i, (_all, head: string, ...rest: readonly string[]) => {
    const [a, b, c, d] = rest.map(Number);
    const group = (high = 0, low = 0): string => (high * 256 + low).toString(16);
    return `${head}${group(a, b)}:${group(c, d)}`;
  });

/** `10.0.0.0/255.0.0.0` and `10.0.0.0/8`; undefined for what is neither an address nor a network. */
export function networkIn(text: string): Cidr | undefined {
  const [address = '', mask = ''] = text.split('/');
  if (!mask.includes('.')) return networkOf(withoutDots(text)) ?? mappedNetwork(withoutDots(text));
  const bits = mask
    .split('.')
    .map((part) => Number(part).toString(2).padStart(8, '0'))
    .join('');
  return /^1*0*$/.test(bits) ? parseCidr(`${address}/${bits.replaceAll('0', '').length}`) : undefined;
}

/** `::ffff:a00:0/104`: addresses of IPv4 in those of IPv6, which no packet has, but firewalls name. */
function mappedNetwork(text: string): Cidr | undefined {
  const [, high, low, length] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\/(\d+)$/i.exec(text) ?? [];
  const prefix = Number(length);
  if (high === undefined || low === undefined || !(prefix >= 96 && prefix <= 128)) return undefined;
  const words = [0, 0, 0, 0, 0, 0xffff, Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return { family: 'ipv6', words, prefix, text, hostBits: false };
}

const isIn = (address: Address, networks: readonly Cidr[]): boolean =>
  networks.some((network) => network.family === address.family && isInCidr(address, network));

/** The source of a packet, where it is known. */
export const sourceOf = ({ source }: TraceFlow, { hidden }: LiveHook): Address | undefined =>
  hidden?.source ? undefined : source;

/** The port at one end of a packet: of the other end, which the client chose, nothing is known. */
export const portAt = (side: 'source' | 'destination', { port }: TraceFlow, { isReply = false }: LiveHook) =>
  (side === 'source') === isReply ? port : undefined;

export const toNetworks =
  (networks: readonly Cidr[]): LiveTest =>
  ({ destination }) =>
    yes(isIn(destination, networks));

export function fromNetworks(networks: readonly Cidr[], isNegated: boolean): SourceTest {
  const texts = networks.filter(({ prefix }) => prefix > 0).map(({ text }) => text);
  const test: LiveTest = (flow, hook) => {
    const source = sourceOf(flow, hook);
    return source && yes(isIn(source, networks) !== isNegated);
  };
  return { test, networks: () => texts, interfaces: [] };
}

/** @param names `cali+` is a prefix */
export const fromInterfaces = (names: readonly string[], isNegated: boolean): SourceTest => ({
  test: (_flow, { in: incoming }) =>
    // A packet of the node has no incoming interface; the kernel compares with an empty name.
    incoming === undefined
      ? names.every(isLoopback)
        ? yes(isNegated)
        : undefined
      : yes(names.some((name) => matchesInterface(name, incoming)) !== isNegated),
  networks: () => [],
  interfaces: names.filter((name) => name !== 'lo' && name !== '+'),
});

/** A packet whose interface is not known comes from a pod or by a wire: only the node's own come by `lo`. */
export const isLoopback = (name: string): boolean => name === 'lo';

export const toInterfaces =
  (names: readonly string[]): LiveTest =>
  (flow: TraceFlow, hook: LiveHook) => {
    if (hook.name === 'PREROUTING' || hook.name === 'INPUT') return 0;
    const out = hook.isLocal(flow.destination) ? 'lo' : hook.outOf(flow.destination);
    return out === undefined ? undefined : yes(names.some((name) => matchesInterface(name, out)));
  };

/** Whether an interface has a name, or a name that begins as a pattern does: `cali+`. */
export const matchesInterface = (pattern: string, name: string): boolean =>
  pattern.endsWith('+') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

/** @param ranges both ends included */
export const hasPort =
  (side: 'source' | 'destination', ranges: readonly (readonly [number, number])[]): LiveTest =>
  (flow, hook) => {
    const port = portAt(side, flow, hook);
    return port === undefined ? undefined : yes(ranges.some(([low, high]) => port >= low && port <= high));
  };

export const isProtocol =
  (names: readonly string[]): LiveTest =>
  (_flow, { protocol }) =>
    yes(names.includes(protocol) || names.includes('all') || names.includes(numbers[protocol]));

const numbers = { tcp: '6', udp: '17', sctp: '132' } as const;

/** The state of a packet's connection, in capitals. Before connection tracking it has none, which counts as INVALID (`xt_conntrack.c`). */
export const stateOf = ({ untracked }: TraceFlow, hook: LiveHook): string =>
  untracked ? 'UNTRACKED' : isTracked(hook) || hook.in === 'lo' ? hook.state : 'INVALID';

/** Where packets get their connection, as the kernel's headers say (`NF_IP_PRI_CONNTRACK`). */
export const conntrackPriority = -200;

/** Whether a packet has its connection already: then `notrack` does nothing. */
export const isTracked = ({ name, priority }: Pick<LiveHook, 'name' | 'priority'>): boolean =>
  priority >= conntrackPriority || (name !== 'PREROUTING' && name !== 'OUTPUT');

export const isState =
  (states: readonly string[]): LiveTest =>
  (flow, hook) => {
    const state = stateOf(flow, hook);
    return yes(
      states.some(
        (one) =>
          one.toUpperCase() === state || (one.toUpperCase() === 'DNAT' && flow.translated && state !== 'INVALID'),
      ),
    );
  };

/** The user of the socket that sends a packet: forwarded ones and first ones of a client have no socket. Undefined: it has one of an unknown user. */
export const hasOwner = ({ name, in: incoming, state }: LiveHook): false | undefined =>
  incoming === '' || (name === 'INPUT' && state !== 'NEW') ? undefined : false;

/**
 * The interface that leads back to the source of a packet, where it is the one that the packet came by; `false`: another one does.
 * @param isStrict false: any interface is enough @returns undefined: not known
 */
export function routeBack(flow: TraceFlow, hook: LiveHook, isStrict: boolean): string | false | undefined {
  const source = sourceOf(flow, hook);
  const { in: incoming } = hook;
  if (!source || incoming === undefined || incoming === '') return undefined;
  if (incoming === 'lo') return 'lo';
  // A wire brings no packet from the node itself.
  if (hook.isLocal(source)) return false;
  const out = hook.outOf(source);
  return out === undefined || !isStrict || out === incoming ? out : false;
}

export const isLocalDestination: LiveTest = ({ destination }, { isLocal }) => yes(isLocal(destination));

/** The node's own addresses are a class of sources, whatever rules ask. */
export const isLocalSource: LiveTest = (flow, hook) => {
  const source = sourceOf(flow, hook);
  return source && yes(hook.isLocal(source));
};

export const isReflexive: LiveTest = (flow, hook) => {
  const source = sourceOf(flow, hook);
  return source && yes(source.text === flow.destination.text);
};

export const remembers =
  (name: string): LiveTest =>
  (_flow, hook) =>
    yes(hook.remembers === name);

/** A list of ports with ranges: `80,8000:9000`. */
export function portsIn(text: string): readonly (readonly [number, number])[] | undefined {
  const ranges = text.split(',').map((part): readonly [number, number] => {
    const [low = '', high = low] = part.split(':');
    return [low === '' ? 0 : Number(low), high === '' ? 65_535 : Number(high)];
  });
  return ranges.every((range) => range.every((port) => Number.isInteger(port) && port >= 0 && port <= 65_535))
    ? ranges
    : undefined;
}

export const addressIn = (text: string): Address | undefined => parseAddress(text.replace(/^\[(.*)\]$/, '$1'));
