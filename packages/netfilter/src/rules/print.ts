import type { Family } from '../family.ts';
import { isTransport } from './cursor.ts';
import { printChance } from './parts.ts';
import { protocolNumbers, recentMask } from './read-match.ts';
import { readRule } from './read.ts';
import { reflexiveBytecode } from './reflexive.ts';
import {
  isRuleError,
  type Match,
  printEndpoint,
  type RecentMatch,
  type RejectReason,
  type Rule,
  type Target,
  type Test,
  type TransportProtocol,
} from './rule.ts';
import { quote } from './words.ts';

/**
 * Prints a rule. `readRule(printRule(r))` is `r`.
 * @param family given: exactly as iptables-save (1.8), except IPv6 addresses with an embedded IPv4 address (`::1.2.3.4`); undefined: the
 * same without the defaults that differ between the families, `--reject-with` and the mask of `recent`
 */
export function printRule(rule: Rule, family?: Family): string {
  const parts = [`-A ${rule.chain}`];
  if (rule.source) parts.push(printTest('-s', rule.source));
  if (rule.destination) parts.push(printTest('-d', rule.destination));
  if (rule.in) parts.push(printTest('-i', rule.in));
  if (rule.out) parts.push(printTest('-o', rule.out));
  if (rule.protocol) parts.push(` -p ${rule.protocol}`);
  for (const match of rule.matches) parts.push(printMatch(match, family));
  if (rule.target) parts.push(printTarget(rule.target, family));
  return parts.join('');
}

/**
 * The text for comparing rules: lines with the same meaning have the same canonical text.
 * iptables may print a rule in another order than it was given, and may leave out a bare `-m tcp`.
 * @returns for a line outside the grammar (a foreign rule) its words, separated by single spaces
 */
export function canonicalRule(text: string): string {
  const rule = readRule(text);
  return isRuleError(rule) ? squeeze(text) : canonicalText(rule);
}

/** `canonicalRule` of a parsed rule. */
function canonicalText(rule: Rule): string {
  const matches = rule.matches.filter(
    (match) => !isTransport(match.kind) || 'destinationPort' in match || 'destinationPorts' in match,
  );
  return printRule(matches.length === rule.matches.length ? rule : { ...rule, matches });
}

function squeeze(text: string): string {
  return (text.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? []).join(' ');
}

function printTest(option: string, test: Test): string {
  return `${test.negated ? ' !' : ''} ${option} ${test.value}`;
}

function printMatch(match: Match, family: Family | undefined): string {
  switch (match.kind) {
    case 'comment':
      return ` -m comment --comment ${quote(match.text)}`;
    case 'conntrack':
      return ` -m conntrack${match.negated ? ' !' : ''} --ctstate ${match.states.join(',')}`;
    case 'mark':
      return ` -m mark${match.negated ? ' !' : ''} --mark ${printMark(match.value, match.mask)}`;
    case 'addrtype':
      return ` -m addrtype${match.negated ? ' !' : ''} --${match.side === 'source' ? 'src' : 'dst'}-type LOCAL`;
    case 'recent':
      return printRecent(match, family);
    case 'set':
      return ` -m set --match-set ${match.name} ${match.sides.join(',')}`;
    case 'reflexive':
      return ` -m bpf --bytecode "${reflexiveBytecode[match.family]}"`;
    case 'physdev':
      return ' -m physdev ! --physdev-is-in';
    case 'ipvs':
      return ` -m ipvs --vproto ${protocolNumbers[match.protocol]} --vaddr ${match.address} --vport ${match.port}`;
    case 'statistic':
      return ` -m statistic --mode random --probability ${printChance(match.chance)}`;
    case 'tcp':
    case 'udp':
    case 'sctp':
      return ` -m ${match.kind}${printPorts(match)}`;
  }
}

function printPorts({ destinationPort, destinationPorts }: Extract<Match, { kind: TransportProtocol }>): string {
  if (destinationPorts) return ` --dport ${destinationPorts.join(':')}`;
  return destinationPort === undefined ? '' : ` --dport ${destinationPort}`;
}

function printTarget(target: Target, family: Family | undefined): string {
  switch (target.kind) {
    case 'jump':
      return ` -j ${target.chain}`;
    case 'goto':
      return ` -g ${target.chain}`;
    case 'reject':
      return printReject(target.with, family);
    case 'mark':
      return ` -j MARK --set-xmark ${hex(target.value)}/${hex(target.mask)}`;
    case 'masquerade':
      return ` -j MASQUERADE${target.randomFully ? ' --random-fully' : ''}`;
    case 'dnat':
      return ` -j DNAT --to-destination ${printEndpoint(target.address, target.port)}`;
    case 'accept':
    case 'drop':
    case 'return':
      return ` -j ${target.kind.toUpperCase()}`;
  }
}

function printRecent(match: RecentMatch, family: Family | undefined): string {
  const seconds = match.seconds === undefined ? '' : ` --seconds ${match.seconds}`;
  const mask = family ? ` --mask ${recentMask(family)}` : '';
  return ` -m recent --${match.action}${seconds}${match.reap ? ' --reap' : ''} --name ${match.name}${mask} --rsource`;
}

function printReject(reason: RejectReason | undefined, family: Family | undefined): string {
  const usual = family && (family === 'ipv4' ? 'icmp-port-unreachable' : 'icmp6-port-unreachable');
  const text = reason ?? usual;
  return ` -j REJECT${text ? ` --reject-with ${text}` : ''}`;
}

/** iptables-save leaves out a mask of all bits in the match, but not in the target. */
function printMark(value: number, mask: number): string {
  return mask === 0xffffffff ? hex(value) : `${hex(value)}/${hex(mask)}`;
}

function hex(bits: number): string {
  return `0x${bits.toString(16)}`;
}
