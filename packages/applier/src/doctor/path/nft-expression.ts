import { canonical, type Elements, elementsOf, type Family, type Json, objectOf } from '@sluice/netfilter';
import { type HookPacket, known, type Match, not, yesNo } from './packet.ts';

/** A table as `nft -j list table` prints it, with the parts that decide about packets. */
export interface NftTableFacts {
  readonly family: 'ip' | 'ip6' | 'inet';
  readonly name: string;
  readonly chains: readonly NftChainFacts[];
}

export interface NftChainFacts {
  readonly name: string;
  /** Of base chains: `filter`, `nat`, `route`. */
  readonly type?: string;
  readonly hook?: string;
  readonly priority?: number;
  readonly policy?: string;
  readonly rules: readonly NftRuleFacts[];
  /** It has further rules, which were not read. */
  readonly isCut?: true;
}

export interface NftRuleFacts {
  readonly handle: number;
  /** The statements, as JSON values. */
  readonly statements: readonly unknown[];
}

export const holdsFamily = ({ family }: NftTableFacts, packet: Family): boolean =>
  family === 'inet' || family === (packet === 'ipv4' ? 'ip' : 'ip6');

/** Whether a packet passes a `match` statement; anything that is not understood matches perhaps. */
export function matchOf(statement: Json, packet: HookPacket): Match {
  const { op, left, right } = statement;
  const found = compare(objectOf(left), right, packet);
  // What has no such field, such as a packet of the other family, matches neither the test nor its opposite.
  if (found === 'absent') return 'no';
  if (op === '!=') return not(found);
  return op === '==' || op === 'in' ? found : 'perhaps';
}

function compare(left: Json, right: unknown, packet: HookPacket): Match | 'absent' {
  const payload = objectOf(left['payload']);
  const meta = objectOf(left['meta'])['key'];
  const ct = objectOf(left['ct'])['key'];
  const field = `${String(payload['protocol'])} ${String(payload['field'])}`;
  const elements = readElements(right);
  if (elements.unread !== undefined) return 'perhaps';
  const holds = (value: string | number): boolean => elements.find([canonical(String(value))]) !== undefined;
  const is = (value: string | number): Match => yesNo(holds(value));
  if (/^ip6? [sd]addr$/.test(field)) {
    if (field.startsWith('ip6 ') !== (packet.family === 'ipv6')) return 'absent';
    return field.endsWith('daddr') ? is(packet.destination) : known(packet.source, holds);
  }
  if (/^(?:tcp|udp|sctp|th) [ds]port$/.test(field)) {
    const [protocol = '', side] = field.split(' ');
    if (protocol !== 'th' && protocol !== packet.protocol) return 'absent';
    return (side === 'dport') === packet.isReply ? 'perhaps' : is(packet.port);
  }
  if (field === 'ip protocol' || field === 'ip6 nexthdr' || meta === 'l4proto') return is(packet.protocol);
  if (meta === 'nfproto') return is(packet.family);
  if (meta === 'iifname' || meta === 'iif') return known(packet.in, holds);
  if (meta === 'oifname' || meta === 'oif') return known(packet.out, holds);
  if (ct === 'state') return is(packet.isReply ? 'established' : 'new');
  if (ct === 'status') return holds('dnat') ? yesNo(packet.isTranslated) : 'perhaps';
  return 'perhaps';
}

/** Each packet meets the same sets: they are read once. */
function readElements(right: unknown): Elements {
  if (typeof right !== 'object' || right === null) return elementsOf(right);
  const before = read.get(right);
  if (before) return before;
  const elements = elementsOf(right);
  read.set(right, elements);
  return elements;
}

const read = new WeakMap<object, Elements>();

/** Of the set that a rule has itself; 0: it compares with one value. */
export function elementCount(right: unknown): number {
  const { set } = objectOf(right);
  return Array.isArray(set) ? set.length : 0;
}

/** `@name` refers to a named set, whose elements are not read here. */
export const asksNamedSet = (statement: Json): boolean =>
  typeof statement['right'] === 'string' && statement['right'].startsWith('@');
