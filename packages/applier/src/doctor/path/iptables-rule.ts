import { matchesInterface, portsIn, wordsOf } from '@sluice/netfilter';
import { all, type HookPacket, isWithin, known, type Match, not, yesNo } from './packet.ts';

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
  '-s': (network) => isWithin(network, 'source'),
  '-d': (network) => isWithin(network, 'destination'),
  '-i': (name) => (packet) => known(packet.in, (value) => matchesInterface(name, value)),
  '-o': (name) => (packet) => known(packet.out, (value) => matchesInterface(name, value)),
  '-p': (name) => (packet) => protocolOf(name, packet),
  '--dport': (ports) => portOf(ports, false),
  '--dports': (ports) => portOf(ports, false),
  '--sport': (ports) => portOf(ports, true),
  '--sports': (ports) => portOf(ports, true),
  '--ctstate': (states) => (packet) => stateOf(states, packet),
  '--state': (states) => (packet) => stateOf(states, packet),
  '--dst-type': (type) => (packet) => (type === 'LOCAL' ? yesNo(packet.isToNode) : 'perhaps'),
  '--comment': () => anything,
  '-m': () => anything,
  '-c': () => anything,
};

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
  const words = wordsOf(text).map((word) => word.text);
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

const protocolOf = (name: string, { protocol }: HookPacket): Match => yesNo(name === protocol || name === 'all');

/** A packet has one known port: a reply that of its source. */
function portOf(text: string, isSource: boolean): Test {
  const ranges = portsIn(text);
  return ({ port, isReply }) =>
    ranges && isReply === isSource ? yesNo(ranges.some(([low, high]) => port >= low && port <= high)) : 'perhaps';
}

/** The first packet of a connection is NEW; its replies are ESTABLISHED. */
function stateOf(states: string, { isReply, isTranslated }: HookPacket): Match {
  const asked = states.split(',');
  const is = asked.includes(isReply ? 'ESTABLISHED' : 'NEW') || (isTranslated && asked.includes('DNAT'));
  return yesNo(is);
}
