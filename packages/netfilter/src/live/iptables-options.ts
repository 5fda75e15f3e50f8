import type { Family } from '../family.ts';
import type { Address } from '../rules/address.ts';
import { readChance, readMark } from '../rules/parts.ts';
import { familyOfBytecode } from '../rules/reflexive.ts';
import { certain } from '../rules/rule.ts';
import { splitWords, type Word } from '../rules/words.ts';
import { connectionMark, flagsIn, hasBits, packetMark, tcpFlags } from './bits.ts';
import { elementsOf } from './nft-values.ts';
import type { Effect, LiveSet, LiveTest, SourceTest } from './rule.ts';
import { inSet, sourcesIn } from './sets.ts';
import {
  addressIn,
  always,
  fromInterfaces,
  fromNetworks,
  hasOwner,
  hasPort,
  isLocalDestination,
  isLocalSource,
  isProtocol,
  isReflexive,
  isState,
  networkIn,
  not,
  portsIn,
  remembers,
  routeBack,
  sourceOf,
  toInterfaces,
  toNetworks,
  unknown,
} from './tests.ts';

/** What a rule may refer to. */
export interface RuleContext {
  readonly family: Family;
  readonly hasChain: (name: string) => boolean;
  /** Undefined: of a program, whose hooks have them. */
  readonly sets: ReadonlyMap<string, LiveSet> | undefined;
}

/** A rule that is being read. */
export interface Reading extends RuleContext {
  readonly isProxys: boolean;
  readonly words: readonly Word[];
  at: number;
  module: string;
  readonly tests: LiveTest[];
  readonly sources: SourceTest[];
  effect: Effect;
  unread: string | undefined;
  /** For the index: exact ones. */
  destination: string | undefined;
  protocol: string | undefined;
  port: string | undefined;
}

/** The words of a line: `"…"` is one, in which a backslash quotes the next character. */
export function wordsOf(line: string): readonly Word[] {
  // Four times faster, and the same words: it refuses what it would split otherwise.
  const split = splitWords(line);
  if (!('error' in split)) return split;
  return [...line.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain]) => ({
    text: quoted?.replaceAll(/\\(.)/g, '$1') ?? plain ?? '',
    quoted: quoted !== undefined,
  }));
}

/** The next word, unless it is quoted. */
export const peek = ({ words, at }: Reading): string => (words[at]?.quoted === false ? words[at].text : '');

/** Takes the next word. */
export function take(reading: Reading): string {
  return reading.words[reading.at++]?.text ?? '';
}

type Reader = (reading: Reading, isNegated: boolean) => LiveTest | undefined;

function unreadable(reading: Reading, name: string, given: string): undefined {
  reading.unread ??= `${name} ${given} is not read`;
  return undefined;
}

const withValue =
  (name: string, make: (text: string, reading: Reading) => LiveTest | undefined): Reader =>
  (reading) => {
    const text = take(reading);
    return make(text, reading) ?? unreadable(reading, name, text);
  };

/** A test of the source: the caller negates tests, and this one itself. */
const ofSource =
  (name: string, make: (text: string, reading: Reading) => SourceTest | undefined): Reader =>
  (reading, isNegated) => {
    const text = take(reading);
    const source = make(text, reading);
    if (!source) return unreadable(reading, name, text);
    reading.sources.push(isNegated ? { ...source, test: not(source.test) } : source);
    return undefined;
  };

const ports: Reader = (reading, isNegated) => {
  const text = take(reading);
  const ranges = portsIn(text);
  if (ranges?.length === 1 && !isNegated && !text.includes(':')) reading.port = text;
  return ranges ? hasPort('destination', ranges) : unreadable(reading, '--dport', text);
};

const sourcePorts = withValue('--sport', (text) => {
  const ranges = portsIn(text);
  // No client has port 0.
  return ranges?.every(([, high]) => high === 0) ? () => 0 : ranges && hasPort('source', ranges);
});

/** Who is not in a list is known of no packet. */
function notNegated(name: string): Reader {
  return (reading, isNegated) => (isNegated ? unreadable(reading, `! ${name}`, `of -m ${reading.module}`) : always);
}

const states = withValue('--ctstate', (text) => isState(text.split(',')));

const owner: Reader = (reading) => {
  take(reading);
  return (_flow, hook) => (hasOwner(hook) === false ? 0 : undefined);
};

/** `-m rpfilter [--loose] [--validmark] [--invert]`: the way back leads through the interface that the packet came by. */
export function reversePath({ words, at }: Reading): LiveTest {
  const own = words.slice(
    at,
    words.findIndex(({ text }, index) => index >= at && /^-[mjg]$/.test(text)),
  );
  const has = (name: string): boolean => own.some(({ text }) => text === name);
  const test: LiveTest = (flow, hook) => {
    const found = routeBack(flow, hook, !has('--loose'));
    return found === undefined ? undefined : found === false ? 0 : 1;
  };
  return has('--invert') ? not(test) : test;
}

/** `10.0.0.5-10.0.0.9`: whether an address is between. */
function rangeIn(text: string): ((address: Address) => boolean) | undefined {
  const [low, high] = text.split('-');
  if (addressIn(low ?? '') === undefined || addressIn(high ?? '') === undefined) return undefined;
  const { all } = elementsOf({ range: [low, high] });
  return ({ text: one }) => all[0]?.holds(0, one) === true;
}

const flags = ['--loose', '--validmark', '--accept-local', '--invert'];

const none: Reader = (reading) => {
  take(reading);
  return () => 0;
};

/** With `--limit-iface-in` or `-out` an address of the node counts on one of its interfaces alone, and which has it is not known. */
function ofInterface(test: LiveTest, { words, at }: Reading): LiveTest {
  const end = words.findIndex(({ text }, index) => index >= at && /^-[mjg]$/.test(text));
  const isLimited = words.slice(at, end < 0 ? undefined : end).some(({ text }) => text.startsWith('--limit-iface-'));
  if (!isLimited) return test;
  return (flow, hook) => (test(flow, hook) === 0 ? 0 : undefined);
}

/** A packet leaves a bridge by the interface that it came by, or it was routed. */
const isBridged: LiveTest = ({ destination }, hook) => {
  if (hook.in === undefined || hook.in === '' || hook.in === 'lo') return 0;
  const out = hook.isLocal(destination) ? 'lo' : hook.outOf(destination);
  return out === undefined || out === hook.in ? undefined : 0;
};

/** `-m socket`: no socket of this node takes the first packet to another one. */
export const hasSocket: LiveTest = ({ destination }, { state, isLocal }) =>
  state === 'NEW' && !isLocal(destination) ? 0 : undefined;

const readers: Readonly<Record<string, Reader>> = {
  '-s': (reading, isNegated) => {
    const text = take(reading);
    const network = networkIn(text);
    if (!network) return unreadable(reading, '-s', text);
    reading.sources.push(fromNetworks([network], isNegated));
    return undefined;
  },
  '-d': (reading, isNegated) => {
    const text = take(reading);
    const network = networkIn(text);
    if (!network) return unreadable(reading, '-d', text);
    const address = network.text.slice(0, network.text.indexOf('/'));
    if (!isNegated && network.prefix === network.words.length * 16) reading.destination = address;
    return toNetworks([network]);
  },
  '-i': (reading, isNegated) => {
    reading.sources.push(fromInterfaces([take(reading)], isNegated));
    return undefined;
  },
  '-o': withValue('-o', (text) => toInterfaces([text])),
  '-p': (reading, isNegated) => {
    const text = take(reading);
    // The index knows the names of the three protocols that Services have.
    if (!isNegated && /^(?:tcp|udp|sctp)$/.test(text)) reading.protocol = text;
    return isProtocol([text]);
  },
  '--dport': ports,
  '--dports': ports,
  '--sport': sourcePorts,
  '--sports': sourcePorts,
  '--ctstate': states,
  '--state': states,
  '--mark': withValue('--mark', (text, { module }) => {
    const field = module === 'mark' ? packetMark : module === 'connmark' ? connectionMark : undefined;
    const mark = field ? readMark(text) : undefined;
    return field && mark && hasBits(field, mark.mask, mark.value);
  }),
  '--dst-type': withValue('--dst-type', (text, reading) =>
    text === 'LOCAL' ? ofInterface(isLocalDestination, reading) : outsideTypes(text),
  ),
  '--src-type': ofSource('--src-type', (text, reading) => {
    const test = text === 'LOCAL' ? ofInterface(isLocalSource, reading) : outsideTypes(text);
    return test && { test, networks: () => [], interfaces: [] };
  }),
  '--comment': withValue('--comment', () => always),
  // It counts packets, and matches all.
  '--nfacct-name': withValue('--nfacct-name', () => always),
  '--match-set': (reading, isNegated) => {
    const name = take(reading);
    const sides = take(reading).split(',');
    const { sets } = reading;
    const set = sets?.get(name);
    const test = inSet(sets ? () => set : ({ setNamed }) => setNamed?.(name), sides);
    if (!sides.includes('src')) return test;
    reading.sources.push({ test: isNegated ? not(test) : test, networks: sourcesIn(set, sides), interfaces: [] });
    return undefined;
  },
  '--mode': withValue('--mode', (text) => (text === 'random' || text === 'nth' ? always : undefined)),
  '--probability': withValue('--probability', (text) => {
    const chance = readChance(text);
    return chance === undefined ? undefined : () => chance / certain;
  }),
  '--name': withValue('--name', (name, reading) =>
    reading.module === 'recent' ? recentTest(name, reading) : undefined,
  ),
  '--set': notNegated('--set'),
  '--rcheck': notNegated('--rcheck'),
  '--update': notNegated('--update'),
  '--reap': () => always,
  '--rsource': () => always,
  '--seconds': withValue('--seconds', () => always),
  '--mask': withValue('--mask', (text) => (/^(?:255\.){3}255$|^(?:ffff:){7}ffff$/.test(text) ? always : undefined)),
  '--physdev-is-in': (reading, isNegated) =>
    isNegated ? () => 0 : unreadable(reading, '--physdev-is-in', 'of a bridge'),
  '--bytecode': withValue('--bytecode', (text) => (familyOfBytecode(text) ? isReflexive : undefined)),
  '--vaddr': withValue('--vaddr', (text) => {
    const network = networkIn(text);
    const address = network?.text.slice(0, network.text.indexOf('/'));
    return network && (({ by }) => (by?.address === address ? 1 : 0));
  }),
  '--vport': withValue(
    '--vport',
    (text) =>
      ({ by }) =>
        by?.port === Number(text) ? 1 : 0,
  ),
  '--vproto': withValue('--vproto', (text) => (flow, hook) => (flow.by ? isProtocol([text])(flow, hook) : 0)),
  '--syn': () => hasBits(tcpFlags, 0x17, 0x02),
  '--tcp-flags': (reading) => {
    const [mask, wanted] = [take(reading), take(reading)];
    const bits = [flagsIn(mask), flagsIn(wanted)] as const;
    if (bits[0] === undefined || bits[1] === undefined) return unreadable(reading, '--tcp-flags', `${mask} ${wanted}`);
    return hasBits(tcpFlags, bits[0], bits[1]);
  },
  ...Object.fromEntries(flags.map((name) => [name, () => always])),
  // Connection tracking puts fragments together first.
  '-f': () => () => 0,
  '--uid-owner': owner,
  '--gid-owner': owner,
  '--socket-exists': () => (_flow, hook) => (hasOwner(hook) === false ? 0 : undefined),
  '--pkt-type': withValue('--pkt-type', (text) => (text === 'unicast' ? always : () => 0)),
  '--ctdir': withValue('--ctdir', (text) =>
    ['ORIGINAL', 'REPLY'].includes(text)
      ? (_flow, { isReply = false }): number => (isReply === (text === 'REPLY') ? 1 : 0)
      : undefined,
  ),
  '--ctproto': withValue('--ctproto', (text) => isProtocol([text])),
  '--ctorigdst': withValue('--ctorigdst', (text) => {
    const network = networkIn(text);
    return network && ((flow, hook) => toNetworks([network])({ ...flow, ...hook.original }, hook));
  }),
  '--ctorigdstport': withValue('--ctorigdstport', (text) => {
    const ranges = portsIn(text);
    return (
      ranges && ((_flow, { original: { port } }) => (ranges.some(([low, high]) => port >= low && port <= high) ? 1 : 0))
    );
  }),
  '--dst-range': withValue('--dst-range', (text) => {
    const range = rangeIn(text);
    return range && (({ destination }) => (range(destination) ? 1 : 0));
  }),
  '--src-range': ofSource('--src-range', (text) => {
    const range = rangeIn(text);
    if (!range) return undefined;
    const test: LiveTest = (flow, hook) => {
      const source = sourceOf(flow, hook);
      return source && (range(source) ? 1 : 0);
    };
    // Its first address stands for all.
    return { test, networks: () => [text.replace(/-.*$/, '')], interfaces: [] };
  }),
  '--ports': withValue('--ports', (text) => {
    const ranges = portsIn(text);
    if (!ranges) return undefined;
    const [from, to] = [hasPort('source', ranges), hasPort('destination', ranges)];
    // One of the ends is enough, and of one nothing is known.
    return (flow, hook) => (from(flow, hook) === 1 || to(flow, hook) === 1 ? 1 : undefined);
  }),
  // One of so many, in turn.
  '--every': withValue('--every', (text) => (Number(text) > 0 ? () => 1 / Number(text) : undefined)),
  '--packet': withValue('--packet', () => always),
  // Read with the type that they limit.
  '--limit-iface-in': () => always,
  '--limit-iface-out': () => always,
  // Packets of Services are no ICMP, and have no header of routes.
  '--icmp-type': none,
  '--icmpv6-type': none,
  '--rt-type': none,
  '--physdev-is-bridged': () => isBridged,
  '--physdev-in': withValue('--physdev-in', () => isBridged),
  '--physdev-out': withValue('--physdev-out', () => isBridged),
  '--transparent': () => hasSocket,
  '--nowildcard': () => hasSocket,
  '--restore-skmark': () => always,
};

/** Options with what they ask. The negation of a test is made by the caller, that of a source by its reader. */
export const options: ReadonlyMap<string, Reader> = new Map(Object.entries(readers));

/** Types of addresses that no Service and no client has. */
const outsideTypes = (text: string): LiveTest | undefined =>
  ['BROADCAST', 'MULTICAST', 'BLACKHOLE', 'UNREACHABLE', 'PROHIBIT'].includes(text) ? () => 0 : undefined;

/** `-m recent`: a list that is only filled matches always. Whom the list of another program has is not known. */
function recentTest(name: string, { words, at, isProxys }: Reading): LiveTest {
  const isModule = ({ text, quoted }: Word): boolean => text === '-m' && !quoted;
  const end = words.findIndex((word, index) => index >= at && (isModule(word) || word.text === '-j'));
  const own = words.slice(words.slice(0, at).findLastIndex(isModule), end < 0 ? undefined : end);
  if (own.some(({ text }) => text === '--set')) return always;
  return isProxys ? remembers(name) : unknown;
}
