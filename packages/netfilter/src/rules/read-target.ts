import { accept, agreeFamily, type GrammarError, type Cursor, take } from './cursor.ts';
import { isJumpTarget, isTaggedChain, readBits, readEndpoint, readMark } from './parts.ts';
import { type RejectReason, rejectReasons, type Target } from './rule.ts';

/** A target, or the error as a clause. */
type ReadTarget = Target | string;

/** Reads the rest of `-j` or `-g`: the target and its options. A target ends a line. */
export function readTarget(cursor: Cursor, kind: 'jump' | 'goto'): GrammarError {
  const name = take(cursor);
  const reader = kind === 'jump' ? readers.get(name) : undefined;
  const leads = isJumpTarget(name) || (cursor.dialect === 'program' && isTaggedChain(name));
  const target = reader ? reader(cursor) : leads ? { kind, chain: name } : undefined;
  if (target === undefined) return `target ${name} is not in the grammar`;
  if (typeof target === 'string') return target;
  const rest = cursor.words[cursor.at];
  if (rest) return `unexpected ${rest.text} after the target`;
  cursor.rule.target = target;
  return undefined;
}

const readers: ReadonlyMap<string, (cursor: Cursor) => ReadTarget> = new Map([
  ['ACCEPT', () => ({ kind: 'accept' as const })],
  ['DROP', () => ({ kind: 'drop' as const })],
  ['RETURN', () => ({ kind: 'return' as const })],
  ['REJECT', readReject],
  ['MARK', readMarkTarget],
  ['MASQUERADE', (cursor: Cursor) => ({ kind: 'masquerade' as const, randomFully: accept(cursor, '--random-fully') })],
  ['DNAT', readDnat],
]);

/** Whether a rule that may be loaded has this target, which is no chain. */
export const isBuiltInTarget = (name: string): boolean => readers.has(name);

/** The default of `-j REJECT`, which iptables-save prints. */
const portUnreachable = { 'icmp-port-unreachable': 'ipv4', 'icmp6-port-unreachable': 'ipv6' } as const;

function readReject(cursor: Cursor): ReadTarget {
  if (!accept(cursor, '--reject-with')) return { kind: 'reject' };
  const reason = take(cursor);
  if (reason === 'icmp-port-unreachable' || reason === 'icmp6-port-unreachable') {
    return agreeFamily(cursor, portUnreachable[reason], reason) ?? { kind: 'reject' };
  }
  if (!isRejectReason(reason)) return `--reject-with ${reason} is not in the grammar`;
  const family = rejectReasons[reason];
  return (family && agreeFamily(cursor, family, reason)) ?? { kind: 'reject', with: reason };
}

function isRejectReason(text: string): text is RejectReason {
  return Object.hasOwn(rejectReasons, text);
}

/** `--or-mark` and `--xor-mark` are other spellings of `--set-xmark value/mask`, the kernel's form. */
function readMarkTarget(cursor: Cursor): ReadTarget {
  const option = take(cursor);
  const text = take(cursor);
  if (option === '--set-xmark') {
    const mark = readMark(text);
    return mark ? { kind: 'mark', ...mark } : '--set-xmark takes hexadecimal numbers of 32 bits';
  }
  const value = readBits(text);
  if (option !== '--or-mark' && option !== '--xor-mark') return `MARK ${option} is not in the grammar`;
  if (value === undefined) return `${option} takes a hexadecimal number of 32 bits`;
  return { kind: 'mark', value, mask: option === '--or-mark' ? value : 0 };
}

function readDnat(cursor: Cursor): ReadTarget {
  if (!accept(cursor, '--to-destination')) return 'DNAT is not followed by --to-destination';
  const text = take(cursor);
  const endpoint = readEndpoint(text);
  if (!endpoint) return '--to-destination takes one address with one port';
  return agreeFamily(cursor, endpoint.family, text) ?? { kind: 'dnat', address: endpoint.address, port: endpoint.port };
}
