import { cidrContains } from '@sluice/netfilter';
import { all, type HookPacket, known, type Match, not } from './packet.ts';

/** A rule of `iptables-save`: whether a packet matches, and what follows. */
export interface ReadRule {
  readonly target: string;
  /** `-g`: the called chain returns to the caller's caller. */
  readonly isGoto: boolean;
  matches(packet: HookPacket): Match;
}

type Test = (packet: HookPacket) => Match;

const anything: Test = () => 'yes';
const perhaps: Test = () => 'perhaps';

/** Options with one value, and what they ask. An option that is not listed matches perhaps. */
const options: Readonly<Record<string, (value: string) => Test>> = {
  '-s': (cidr) => (packet) => known(packet.source, (source) => inNetwork(cidr, source)),
  '-d': (cidr) => (packet) => (inNetwork(cidr, packet.destination) ? 'yes' : 'no'),
  '-i': (name) => (packet) => known(packet.in, (value) => isInterface(name, value)),
  '-o': (name) => (packet) => known(packet.out, (value) => isInterface(name, value)),
  '-p': (name) => (packet) => protocolOf(name, packet),
  '--dport': (ports) => (packet) => (packet.isReply ? 'perhaps' : isPort(ports, packet.port)),
  '--dports': (ports) => (packet) => (packet.isReply ? 'perhaps' : isPort(ports, packet.port)),
  '--sport': (ports) => (packet) => (packet.isReply ? isPort(ports, packet.port) : 'perhaps'),
  '--sports': (ports) => (packet) => (packet.isReply ? isPort(ports, packet.port) : 'perhaps'),
  '--ctstate': (states) => (packet) => stateOf(states, packet),
  '--state': (states) => (packet) => stateOf(states, packet),
  '--dst-type': (type) => (packet) => (type === 'LOCAL' ? yesNo(packet.isToNode) : 'perhaps'),
  '--comment': () => anything,
  '-m': () => anything,
  '-c': () => anything,
};

const yesNo = (value: boolean): Match => (value ? 'yes' : 'no');

/** Modules whose options are all judged one by one; any other module matches perhaps. */
const judged = new Set(['tcp', 'udp', 'sctp', 'comment', 'conntrack', 'state', 'multiport', 'addrtype']);

/** Options without a value. */
const flags = new Set([
  '--syn',
  '--log-uid',
  '--random',
  '--random-fully',
  '--notrack',
  '--save-mark',
  '--restore-mark',
]);

/** Reads a rule; undefined for one without a target, which changes nothing. */
export function readForeign(text: string): ReadRule | undefined {
  const words = wordsOf(text);
  const tests: Test[] = [];
  let target = '';
  let isGoto = false;
  let negated = false;
  for (let at = 2; at < words.length; at++) {
    const word = words[at] ?? '';
    if (word === '!') {
      negated = true;
      continue;
    }
    if (word === '-j' || word === '-g') {
      target = words[at + 1] ?? '';
      isGoto = word === '-g';
      // The rest are options of the target.
      if (words.includes('--notrack', at)) target = 'NOTRACK';
      break;
    }
    if (flags.has(word)) {
      tests.push(word === '--syn' ? ({ isReply }) => yesNo(isReply === negated) : perhaps);
      negated = false;
      continue;
    }
    const value = words[at + 1] ?? '';
    if (word === '-m' && !judged.has(value)) tests.push(perhaps);
    const make = options[word];
    // An option that is not listed may have several values: `--match-set NAME src`.
    if (!make) while (!/^(?:-|!$)/.test(words[at + 2] ?? '-')) at++;
    const test: Test = make ? make(value) : perhaps;
    const isNegated = negated;
    tests.push(isNegated ? (packet) => not(test(packet)) : test);
    negated = false;
    at++;
  }
  if (target === '') return undefined;
  return { target, isGoto, matches: (packet) => all(tests.map((test) => test(packet))) };
}

/** Words of a rule; `"…"` is one, in which a backslash quotes the next character. */
export const wordsOf = (text: string): readonly string[] =>
  [...text.matchAll(/"((?:[^"\\]|\\.)*)"|(\S+)/g)].map(
    ([, quoted, plain]) => quoted?.replaceAll(/\\(.)/g, '$1') ?? plain ?? '',
  );

export function inNetwork(cidr: string, address: string): boolean {
  const full = cidr.includes('/') ? cidr : `${cidr}/${cidr.includes(':') ? 128 : 32}`;
  const mask = /\/(\d+\.\d+\.\d+\.\d+)$/.exec(full)?.[1];
  const plain = mask === undefined ? full : full.replace(/\/.*$/, `/${prefixOf(mask)}`);
  return plain.endsWith('/0') || cidrContains(plain, address);
}

/** `255.255.0.0` → 16 */
const prefixOf = (mask: string): number =>
  mask.split('.').reduce((bits, part) => bits + Number(part).toString(2).replaceAll('0', '').length, 0);

/** `cali+` is a prefix. */
export const isInterface = (pattern: string, name: string): boolean =>
  pattern.endsWith('+') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;

const protocolOf = (name: string, { protocol }: HookPacket): Match => yesNo(name === protocol || name === 'all');

/** `80`, `1024:65535`, `80,443` */
function isPort(text: string, port: number): Match {
  const found = text.split(',').some((part) => {
    const [from = '', to = from] = part.split(':');
    return port >= Number(from === '' ? 0 : from) && port <= Number(to === '' ? 65_535 : to);
  });
  return yesNo(found);
}

/** The first packet of a connection is NEW; its replies are ESTABLISHED. */
function stateOf(states: string, { isReply, isTranslated }: HookPacket): Match {
  const asked = states.split(',');
  const is = asked.includes(isReply ? 'ESTABLISHED' : 'NEW') || (isTranslated && asked.includes('DNAT'));
  return yesNo(is);
}
