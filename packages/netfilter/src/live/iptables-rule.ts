import type { Family } from '../family.ts';
import { readChance, readMark } from '../rules/parts.ts';
import { familyOfBytecode } from '../rules/reflexive.ts';
import { certain } from '../rules/rule.ts';
import type { RuleHit } from '../packet/packet.ts';
import type { Effect, LiveRule, LiveSet, LiveTest, SourceTest, UnreadEffect } from './rule.ts';
import { inSet, sourcesIn } from './sets.ts';
import {
  addressIn,
  always,
  fromInterfaces,
  fromNetworks,
  hasMark,
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
interface Reading extends RuleContext {
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

interface Word {
  readonly text: string;
  readonly isQuoted: boolean;
}

/** Reads one line of `iptables-save`. Whatever is not understood stays in the rule, by name. @param hit its entry in a path */
export function readIptablesRule(text: string, context: RuleContext, hit: RuleHit, isProxys: boolean): LiveRule {
  const reading: Reading = {
    ...context,
    isProxys,
    words: wordsOf(text),
    at: 2,
    module: '',
    tests: [],
    sources: [],
    effect: { kind: 'none' },
    unread: undefined,
    destination: undefined,
    protocol: undefined,
    port: undefined,
  };
  while (reading.at < reading.words.length) readOption(reading);
  const { tests, sources, effect, unread, destination, protocol, port } = reading;
  const key = destination && protocol && port ? `${protocol} ${destination} ${port}` : undefined;
  return { text, hit, key, tests, sources, effect, unread, cost: 1, listed: undefined, isProxys };
}

/** The words of a line: `"…"` is one, in which a backslash quotes the next character. */
export const wordsOf = (text: string): readonly Word[] =>
  [...text.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(([, quoted, plain]) => ({
    text: quoted?.replaceAll(/\\(.)/g, '$1') ?? plain ?? '',
    isQuoted: quoted !== undefined,
  }));

const peek = ({ words, at }: Reading): string => (words[at]?.isQuoted === false ? words[at].text : '');

function take(reading: Reading): string {
  return reading.words[reading.at++]?.text ?? '';
}

function readOption(reading: Reading): void {
  const isNegated = peek(reading) === '!';
  if (isNegated) reading.at++;
  const option = take(reading);
  if (option === '-j' || option === '-g') {
    readTarget(reading, option === '-g');
    return;
  }
  if (option === '-m') {
    reading.module = take(reading);
    return;
  }
  const reader = Object.hasOwn(options, option) ? options[option] : undefined;
  if (reader) {
    const test = reader(reading, isNegated);
    if (test && test !== always) reading.tests.push(isNegated ? not(test) : test);
    return;
  }
  reading.unread ??= `option ${option}${reading.module === '' ? '' : ` of -m ${reading.module}`} is not read`;
  while (reading.at < reading.words.length && !/^(?:-.|!$)/.test(peek(reading))) reading.at++;
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

const ports: Reader = (reading, isNegated) => {
  const text = take(reading);
  const ranges = portsIn(text);
  if (ranges?.length === 1 && !isNegated && !text.includes(':')) reading.port = text;
  return ranges ? hasPort('destination', ranges) : unreadable(reading, '--dport', text);
};

const sourcePorts = withValue('--sport', (text) => {
  const ranges = portsIn(text);
  return ranges && hasPort('source', ranges);
});

/** Who is not in a list is known of no packet. */
function notNegated(name: string): Reader {
  return (reading, isNegated) => (isNegated ? unreadable(reading, `! ${name}`, `of -m ${reading.module}`) : always);
}

const states = withValue('--ctstate', (text) => isState(text.split(',')));

/** Options with what they ask. The negation of a test is made by the caller, that of a source by its reader. */
const options: Readonly<Record<string, Reader>> = {
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
    const mark = module === 'mark' ? readMark(text) : undefined;
    return mark && hasMark(mark.value, mark.mask);
  }),
  '--dst-type': withValue('--dst-type', (text) => (text === 'LOCAL' ? isLocalDestination : outsideTypes(text))),
  '--src-type': (reading, isNegated) => {
    const text = take(reading);
    const test = text === 'LOCAL' ? isLocalSource : outsideTypes(text);
    if (!test) return unreadable(reading, '--src-type', text);
    reading.sources.push({ test: isNegated ? not(test) : test, networks: () => [], interfaces: [] });
    return undefined;
  },
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
  '--mode': withValue('--mode', (text) => (text === 'random' ? always : undefined)),
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
  '--syn':
    () =>
    (_flow, { protocol, state }) =>
      protocol === 'tcp' && state === 'NEW' ? 1 : 0,
};

/** Types of addresses that no Service and no client has. */
const outsideTypes = (text: string): LiveTest | undefined =>
  ['BROADCAST', 'MULTICAST', 'BLACKHOLE', 'UNREACHABLE', 'PROHIBIT'].includes(text) ? () => 0 : undefined;

/** `-m recent`: a list that is only filled matches always. Whom the list of another program has is not known. */
function recentTest(name: string, { words, at, isProxys }: Reading): LiveTest {
  const isModule = ({ text, isQuoted }: Word): boolean => text === '-m' && !isQuoted;
  const end = words.findIndex((word, index) => index >= at && (isModule(word) || word.text === '-j'));
  const own = words.slice(words.slice(0, at).findLastIndex(isModule), end < 0 ? undefined : end);
  if (own.some(({ text }) => text === '--set')) return always;
  return isProxys ? remembers(name) : unknown;
}

function readTarget(reading: Reading, isGoto: boolean): void {
  const name = take(reading);
  const rest = reading.words.slice(reading.at).map(({ text }) => text);
  reading.at = reading.words.length;
  if (reading.hasChain(name)) {
    reading.effect = { kind: isGoto ? 'goto' : 'jump', chain: name };
    return;
  }
  // The source of a proxy is that of the node; foreign translations of sources stay.
  const effect = name === 'SNAT' && reading.isProxys ? undefined : effectOf(name, rest, reading.family);
  const because = `target ${[name, ...rest].join(' ')} is not read`;
  reading.effect = effect ?? { kind: 'unread', because, does: unreadTargets.get(name) ?? 'else' };
  if (!effect) reading.unread ??= because;
}

/** What targets do whose options are not read. */
const unreadTargets: ReadonlyMap<string, UnreadEffect['does']> = new Map([
  ['DNAT', 'translate'],
  ['REDIRECT', 'translate'],
  ['NETMAP', 'translate'],
  ['MARK', 'mark'],
  ['CONNMARK', 'mark'],
]);

const optionOf = (words: readonly string[], name: string): string | undefined => {
  const at = words.indexOf(name);
  return at < 0 ? undefined : (words[at + 1] ?? '');
};

/** Targets that change nothing that decides about a packet of a Service. */
const harmlessTargets: ReadonlySet<string> = new Set([
  'LOG',
  'NFLOG',
  'TCPMSS',
  'TRACE',
  'SET',
  'DSCP',
  'TOS',
  'CHECKSUM',
  'CLASSIFY',
  'AUDIT',
  'NFACCT',
  'RATEEST',
  'TEE',
  'ECN',
  'TTL',
  'HL',
]);

function effectOf(name: string, rest: readonly string[], family: Family): Effect | undefined {
  if (harmlessTargets.has(name)) return { kind: 'none' };
  switch (name) {
    case 'ACCEPT':
      return { kind: 'accept' };
    case 'DROP':
      return { kind: 'drop' };
    case 'RETURN':
      return { kind: 'return' };
    case 'REJECT': {
      const reason = optionOf(rest, '--reject-with');
      const isUsual = reason === undefined || /^icmp6?-port-unreach(?:able)?$/.test(reason);
      return { kind: 'reject', ...(isUsual ? {} : { with: reason }) };
    }
    case 'MARK':
      return markOf(rest);
    case 'MASQUERADE':
    case 'SNAT':
      return { kind: 'masquerade' };
    case 'DNAT': {
      // Of a revision that the tool does not know it prints `[unsupported revision]` instead.
      const to = optionOf(rest, '--to-destination');
      return to === undefined ? undefined : dnatOf(to);
    }
    case 'REDIRECT': {
      const port = optionOf(rest, '--to-ports') ?? '';
      const address = addressIn(family === 'ipv4' ? '127.0.0.1' : '::1');
      return /^\d+$/.test(port) ? { kind: 'dnat', address, port: Number(port) } : undefined;
    }
    case 'CONNMARK':
      // The mark of a new connection is 0; what is saved to it is for later packets.
      return rest.includes('--restore-mark') ? undefined : { kind: 'none' };
    case 'CT':
      return { kind: rest.includes('--notrack') ? 'untrack' : 'none' };
    case 'NOTRACK':
      return { kind: 'untrack' };
    default:
      return undefined;
  }
}

function markOf(rest: readonly string[]): Effect | undefined {
  const [name = '', text = ''] = rest;
  const mark = readMark(text);
  if (!mark) return undefined;
  const { value, mask } = mark;
  if (name === '--set-xmark') return { kind: 'mark', value, mask };
  if (name === '--set-mark') return { kind: 'mark', value, mask: (mask | value) >>> 0 };
  if (name === '--or-mark') return { kind: 'mark', value, mask: value };
  if (name === '--xor-mark') return { kind: 'mark', value, mask: 0 };
  if (name === '--and-mark') return { kind: 'mark', value: 0, mask: ~value >>> 0 };
  return undefined;
}

/** `10.244.1.5:8080`, `[fd00::5]:8080`, `10.244.1.5`; ranges are not read. */
function dnatOf(text: string): Effect | undefined {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+|[0-9a-f:]+))(?::(\d+))?$/i.exec(text) ?? [];
  const address = addressIn(bracketed ?? plain ?? '');
  return address && { kind: 'dnat', address, port: port === undefined ? undefined : Number(port) };
}
