import type { Family } from '../family.ts';
import {
  accept,
  agreeFamily,
  type GrammarError,
  type Cursor,
  type Dialect,
  isTransport,
  setOnce,
  take,
} from './cursor.ts';
import { isChainName, isInterface, isTaggedChain, readNetwork } from './parts.ts';
import { readDestinationPort, readMatch } from './read-match.ts';
import { readTarget } from './read-target.ts';
import type { Rule, RuleError } from './rule.ts';
import { splitWords } from './words.ts';

/**
 * Reads one rule line. The grammar is closed: it has only the forms that kube-proxy writes, and those in which iptables-save (1.8)
 * prints them. So no dangerous option reaches iptables-restore, such as `-M`, which names a program to run as root.
 * @param text `-A CHAIN …`, without guards and variables
 * @param family the required family; by default that of its addresses
 * @param dialect `program`: also tagged names, port ranges, `-m set` and `-m bpf`, which layout `tree` writes and a bundle must not contain
 * @returns the rule, or why the line is not a rule
 */
export function readRule(text: string, family?: Family, dialect: Dialect = 'bundle'): Rule | RuleError {
  const words = splitWords(text);
  if ('error' in words) return words;
  const chain = words[1]?.text ?? '';
  if (words[0]?.text !== '-A' || !(isChainName(chain) || (dialect === 'program' && isTaggedChain(chain))))
    return { error: 'the line does not start with -A and a chain' };
  const cursor: Cursor = { words, at: 2, family, dialect, rule: { chain, matches: [] } };
  while (cursor.at < words.length) {
    const error = readOption(cursor);
    if (error !== undefined) return { error };
  }
  const error = checkWhole(cursor.rule);
  return error === undefined ? cursor.rule : { error };
}

function readOption(cursor: Cursor): GrammarError {
  const negated = accept(cursor, '!');
  const option = take(cursor);
  switch (option) {
    case '-s':
      return readAddress(cursor, 'source', negated);
    case '-d':
      return readAddress(cursor, 'destination', negated);
    case '-i':
      return readInterface(cursor, 'in', negated);
    case '-o':
      return readInterface(cursor, 'out', negated);
  }
  if (negated) return `! is not allowed before ${option}`;
  switch (option) {
    case '-p':
      return readProtocol(cursor);
    case '-m':
      return readMatch(cursor);
    case '--dport':
      return readDestinationPort(cursor);
    case '-j':
      return readTarget(cursor, 'jump');
    case '-g':
      return readTarget(cursor, 'goto');
    default:
      return `option ${option} is not in the grammar`;
  }
}

function readAddress(cursor: Cursor, side: 'source' | 'destination', negated: boolean): GrammarError {
  const text = take(cursor);
  const network = readNetwork(text);
  if (!network) return `${text} is neither an address nor a network`;
  const complaint = agreeFamily(cursor, network.family, text);
  if (complaint !== undefined) return complaint;
  if (network.text.endsWith('/0')) return negated ? `! ${text} matches nothing` : undefined;
  return setOnce(cursor, side, { negated, value: network.text });
}

function readInterface(cursor: Cursor, side: 'in' | 'out', negated: boolean): GrammarError {
  const text = take(cursor);
  return isInterface(text) ? setOnce(cursor, side, { negated, value: text }) : `${text} is not a valid interface name`;
}

function readProtocol(cursor: Cursor): GrammarError {
  const text = take(cursor);
  if (!isTransport(text)) return `protocol ${text} is not in the grammar`;
  if (cursor.rule.protocol) return 'the protocol is given twice';
  cursor.rule.protocol = text;
  return undefined;
}

/** Checks that need the whole line. */
function checkWhole(rule: Rule): GrammarError {
  const { protocol, target } = rule;
  const transport = rule.matches.find((match) => isTransport(match.kind));
  if (transport && transport.kind !== protocol) return `-m ${transport.kind} requires -p ${transport.kind}`;
  if (target?.kind === 'dnat' && !protocol) return 'DNAT with a port requires -p';
  if (target?.kind === 'reject' && target.with === 'tcp-reset' && protocol !== 'tcp')
    return 'tcp-reset requires -p tcp';
  return undefined;
}
