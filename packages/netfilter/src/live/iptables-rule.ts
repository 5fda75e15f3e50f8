import type { Family } from '../family.ts';
import { readMark } from '../rules/parts.ts';
import type { RuleHit } from '../packet/packet.ts';
import {
  hasSocket,
  options,
  peek,
  type Reading,
  reversePath,
  type RuleContext,
  take,
  wordsOf,
} from './iptables-options.ts';
import type { Effect, LiveRule, UnreadEffect } from './rule.ts';
import { addressIn, always, not } from './tests.ts';

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
  const recent = text.includes('recent') ? recentIn(reading.words.map((word) => word.text)) : undefined;
  return {
    text,
    hit: recent ? { ...hit, recent } : hit,
    key,
    tests,
    sources,
    effect,
    unread,
    cost: 1,
    listed: undefined,
    isProxys,
  };
}

/** `-m recent --rcheck --seconds 600 --name LIST`: what a rule does with a list of clients. */
function recentIn(words: readonly string[]): RuleHit['recent'] {
  const at = words.indexOf('recent');
  const own = at > 0 && words[at - 1] === '-m' ? words.slice(at) : [];
  const name = optionOf(own, '--name');
  const action = (['set', 'rcheck'] as const).find((one) => own.includes(`--${one}`));
  const seconds = optionOf(own, '--seconds');
  if (name === undefined || action === undefined) return undefined;
  return { action, name, ...(seconds === undefined ? {} : { seconds: Number(seconds) }) };
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
    // They have no option that must be there.
    if (reading.module === 'rpfilter') reading.tests.push(reversePath(reading));
    if (reading.module === 'socket') reading.tests.push(hasSocket);
    if (reading.module === 'eui64') reading.unread ??= 'module eui64 is not read';
    if (reading.module === 'rt' || reading.module === 'frag') reading.tests.push(() => 0);
    return;
  }
  const reader = options.get(option);
  if (reader) {
    const test = reader(reading, isNegated);
    if (test && test !== always) reading.tests.push(isNegated ? not(test) : test);
    return;
  }
  reading.unread ??= `option ${option}${reading.module === '' ? '' : ` of -m ${reading.module}`} is not read`;
  while (reading.at < reading.words.length && !/^(?:-.|!$)/.test(peek(reading))) reading.at++;
}

function readTarget(reading: Reading, isGoto: boolean): void {
  const name = take(reading);
  const first = reading.at;
  reading.at = reading.words.length;
  if (reading.hasChain(name)) {
    reading.effect = { kind: isGoto ? 'goto' : 'jump', chain: name };
    return;
  }
  const rest = reading.words.slice(first).map(({ text }) => text);
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
  // Without a socket for it the packet is dropped (`xt_TPROXY.c`); that of nftables lets it continue.
  ['TPROXY', 'proxy'],
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
  'ULOG',
  'SECMARK',
  'CONNSECMARK',
  'IDLETIMER',
  'LED',
  'TCPOPTSTRIP',
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
      const port = optionOf(rest, '--to-ports');
      const address = addressIn(family === 'ipv4' ? '127.0.0.1' : '::1');
      if (port !== undefined && !/^\d+$/.test(port)) return undefined;
      return { kind: 'dnat', address, port: port === undefined ? undefined : Number(port) };
    }
    case 'CONNMARK':
      return connectionMarkOf(rest);
    case 'CT':
      return { kind: rest.includes('--notrack') ? 'untrack' : 'none' };
    case 'NOTRACK':
      return { kind: 'untrack' };
    default:
      return undefined;
  }
}

/** `--save-mark --nfmask 0xff --ctmask 0xff`, `--restore-mark --mask 0x80`, `--set-xmark 0x80/0x80`. */
function connectionMarkOf(rest: readonly string[]): Effect | undefined {
  const [verb = ''] = rest;
  if (verb !== '--save-mark' && verb !== '--restore-mark') {
    const mark = markOf(rest);
    return mark?.kind === 'mark' ? { ...mark, kind: 'connection-mark' } : undefined;
  }
  const bits = (name: string): number | undefined =>
    readMark(optionOf(rest, name) ?? optionOf(rest, '--mask') ?? '0xffffffff')?.value;
  const [ofPacket, ofConnection] = [bits('--nfmask'), bits('--ctmask')];
  if (ofPacket === undefined || ofConnection === undefined) return undefined;
  return verb === '--save-mark'
    ? { kind: 'save-mark', from: ofPacket, to: ofConnection }
    : { kind: 'restore-mark', from: ofConnection, to: ofPacket };
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
