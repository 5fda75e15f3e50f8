import { accept, agreeFamily, type GrammarError, type Cursor, isTransport, take } from './cursor.ts';
import { dimensionsOf, findSet } from './sets.ts';
import {
  isComment,
  isJumpTarget,
  isSwitch,
  readChance,
  readMark,
  readNetwork,
  readNumber,
  readPorts,
  readStates,
} from './parts.ts';
import { familyOfBytecode } from './reflexive.ts';
import type { Match, TransportProtocol } from './rule.ts';

/** A match, or the error as a clause. */
type ReadMatch = Match | string;

/** Reads the rest of `-m`: the name of a match and its options, which follow directly. */
export function readMatch(cursor: Cursor): GrammarError {
  const name = take(cursor);
  const match = isTransport(name) ? { kind: name } : readers.get(name)?.(cursor);
  if (match === undefined) return `match ${name} is not in the grammar`;
  if (typeof match === 'string') return match;
  if (cursor.rule.matches.some((other) => other.kind === match.kind)) return `match ${name} is given twice`;
  cursor.rule.matches.push(match);
  return undefined;
}

/**
 * Reads the rest of `--dport`. It belongs to `-m tcp`; kube-proxy writes `-p` and `-d` between the two, iptables-save does not.
 */
export function readDestinationPort(cursor: Cursor): GrammarError {
  const { matches } = cursor.rule;
  const index = matches.findIndex((match) => isTransport(match.kind));
  const match = matches[index];
  const text = take(cursor);
  const port = readNumber(text, 1, 65_535);
  const ports = port === undefined && cursor.dialect === 'program' ? readPorts(text) : undefined;
  if (!match || !isTransport(match.kind)) return '--dport requires -m tcp, udp or sctp before it';
  if (port === undefined && !ports) return '--dport takes one port';
  if ('destinationPort' in match || 'destinationPorts' in match) return '--dport is given twice';
  matches[index] = { kind: match.kind, ...(ports ? { destinationPorts: ports } : { destinationPort: port as number }) };
  return undefined;
}

const readers: ReadonlyMap<string, (cursor: Cursor) => ReadMatch> = new Map([
  ['comment', readComment],
  ['conntrack', readConntrack],
  ['mark', readMarkMatch],
  ['addrtype', readAddrtype],
  ['recent', readRecent],
  ['set', readSetMatch],
  ['bpf', readBytecode],
  ['physdev', readPhysdev],
  ['ipvs', readIpvsMatch],
  ['statistic', readStatistic],
]);

function readComment(cursor: Cursor): ReadMatch {
  if (!accept(cursor, '--comment')) return '-m comment is not followed by --comment';
  const text = cursor.words[cursor.at++]?.text ?? '';
  if (text === '' || !isComment(text)) return 'a comment is empty, longer than 255 bytes or starts with a dash';
  return { kind: 'comment', text };
}

function readConntrack(cursor: Cursor): ReadMatch {
  const negated = accept(cursor, '!');
  if (!accept(cursor, '--ctstate')) return '-m conntrack is not followed by --ctstate';
  const states = readStates(take(cursor));
  return states ? { kind: 'conntrack', negated, states } : '--ctstate has an unknown state or one twice';
}

function readMarkMatch(cursor: Cursor): ReadMatch {
  const negated = accept(cursor, '!');
  if (!accept(cursor, '--mark')) return '-m mark is not followed by --mark';
  const mark = readMark(take(cursor));
  return mark ? { kind: 'mark', negated, ...mark } : '--mark takes hexadecimal numbers of 32 bits';
}

function readAddrtype(cursor: Cursor): ReadMatch {
  const negated = accept(cursor, '!') ? { negated: true as const } : {};
  if (accept(cursor, '--src-type', 'LOCAL')) return { kind: 'addrtype', side: 'source', ...negated };
  if (accept(cursor, '--dst-type', 'LOCAL')) return { kind: 'addrtype', side: 'destination', ...negated };
  return '-m addrtype is followed by neither --src-type LOCAL nor --dst-type LOCAL';
}

function readStatistic(cursor: Cursor): ReadMatch {
  if (!accept(cursor, '--mode', 'random', '--probability')) return '-m statistic is not random with a probability';
  const chance = readChance(take(cursor));
  return chance === undefined ? '--probability takes a decimal fraction' : { kind: 'statistic', chance };
}

/** Only sets of mode ipvs, each of one family, with a side for each part of its entries. */
function readSetMatch(cursor: Cursor): ReadMatch {
  if (!accept(cursor, '--match-set')) return '-m set is not followed by --match-set';
  const name = take(cursor);
  // Only programs match the switches of layout `tree`, never files.
  if (cursor.dialect === 'program' && isSwitch(name))
    return accept(cursor, 'src') ? { kind: 'set', name, sides: ['src'] } : `--match-set ${name} takes src`;
  const set = findSet(name);
  if (!set) return `${JSON.stringify(name)} is not a set of mode ipvs`;
  const sides = take(cursor).split(',');
  if (!sides.every((side) => side === 'src' || side === 'dst') || sides.length !== dimensionsOf(set.type))
    return `--match-set ${name} takes ${dimensionsOf(set.type)} times src or dst`;
  return agreeFamily(cursor, set.family, name) ?? { kind: 'set', name, sides };
}

/** The one program of each family: destination equals source. */
function readBytecode(cursor: Cursor): ReadMatch {
  const isKnown = cursor.dialect === 'program' && accept(cursor, '--bytecode');
  const family = isKnown ? familyOfBytecode(cursor.words[cursor.at++]?.text ?? '') : undefined;
  if (!family) return '-m bpf has other bytecode than layout `tree` writes';
  return agreeFamily(cursor, family, '--bytecode') ?? { kind: 'reflexive', family };
}

function readPhysdev(cursor: Cursor): ReadMatch {
  return accept(cursor, '!', '--physdev-is-in')
    ? { kind: 'physdev' }
    : '-m physdev is not followed by ! --physdev-is-in';
}

/** As iptables-save prints them. */
export const protocolNumbers = { tcp: 6, udp: 17, sctp: 132 } as const satisfies Record<TransportProtocol, number>;

function readIpvsMatch(cursor: Cursor): ReadMatch {
  const seen = new Map<string, string>();
  for (const option of ['--vaddr', '--vproto', '--vaddr', '--vport'])
    if (!seen.has(option) && accept(cursor, option)) seen.set(option, take(cursor));
  const network = readNetwork(seen.get('--vaddr') ?? '');
  const port = readNumber(seen.get('--vport') ?? '', 1, 65_535);
  const protocol = (['tcp', 'udp', 'sctp'] as const).find((name) =>
    [name, String(protocolNumbers[name])].includes(seen.get('--vproto') ?? ''),
  );
  const whole = network && `/${network.family === 'ipv4' ? 32 : 128}`;
  if (!network || !whole || !network.text.endsWith(whole) || port === undefined || !protocol)
    return '-m ipvs is not followed by --vaddr, --vproto and --vport with one address, protocol and port';
  const address = network.text.slice(0, -whole.length);
  return agreeFamily(cursor, network.family, address) ?? { kind: 'ipvs', address, protocol, port };
}

/** The masks that iptables-save adds. */
const wholeAddress = { ipv4: '255.255.255.255', ipv6: 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff' } as const;

function readRecent(cursor: Cursor): ReadMatch {
  const seen: { action?: 'rcheck' | 'set'; name?: string; seconds?: number; reap?: true } = {};
  for (;;) {
    if (accept(cursor, '--rcheck') || accept(cursor, '--set')) {
      if (seen.action) return '-m recent has two actions';
      seen.action = cursor.words[cursor.at - 1]?.text === '--set' ? 'set' : 'rcheck';
    } else if (accept(cursor, '--name')) seen.name = take(cursor);
    else if (accept(cursor, '--seconds')) seen.seconds = readNumber(take(cursor), 1, 0xffffffff) ?? 0;
    else if (accept(cursor, '--reap')) seen.reap = true;
    else if (accept(cursor, '--mask')) {
      const complaint = agreeFamilyOfMask(cursor, take(cursor));
      if (complaint !== undefined) return complaint;
    } else if (!accept(cursor, '--rsource')) break;
  }
  const { action, name = '', seconds, reap = false } = seen;
  if (!action || !isJumpTarget(name)) return '-m recent has no action, or a name that is not a valid chain name';
  if (action === 'set' ? seconds !== undefined || reap : seconds === 0 || (reap && !seconds)) {
    return '-m recent has conflicting options';
  }
  return { kind: 'recent', action, name, ...(seconds === undefined ? {} : { seconds }), reap };
}

function agreeFamilyOfMask(cursor: Cursor, mask: string): GrammarError {
  if (mask === wholeAddress.ipv4) return agreeFamily(cursor, 'ipv4', mask);
  if (mask === wholeAddress.ipv6) return agreeFamily(cursor, 'ipv6', mask);
  return '-m recent has a mask that is not the whole address';
}

export function recentMask(family: keyof typeof wholeAddress): string {
  return wholeAddress[family];
}
