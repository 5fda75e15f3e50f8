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

/** `10.0.0.0/255.0.0.0` and `10.0.0.0/8`; undefined for what is neither an address nor a network. */
export function networkIn(text: string): Cidr | undefined {
  const [address = '', mask = ''] = text.split('/');
  if (!mask.includes('.')) return networkOf(text);
  const bits = mask
    .split('.')
    .map((part) => Number(part).toString(2).padStart(8, '0'))
    .join('');
  return /^1*0*$/.test(bits) ? parseCidr(`${address}/${bits.replaceAll('0', '').length}`) : undefined;
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
    yes(names.some((name) => name === protocol || name === 'all' || name === numbers[protocol]));

const numbers = { tcp: '6', udp: '17', sctp: '132' } as const;

export const isState =
  (states: readonly string[]): LiveTest =>
  (flow, hook) => {
    const state = flow.untracked ? 'UNTRACKED' : hook.state;
    return yes(
      states.some(
        (one) =>
          one.toUpperCase() === state || (one.toUpperCase() === 'DNAT' && flow.translated && state !== 'INVALID'),
      ),
    );
  };

export const hasMark =
  (value: number, mask: number): LiveTest =>
  ({ mark }, { hidden }) =>
    hidden?.mark ? undefined : yes((mark & mask) >>> 0 === value);

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
