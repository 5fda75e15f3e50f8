import type { Family } from '@sluice/netfilter';
import { inNetwork, isInterface } from './iptables-rule.ts';
import { type HookPacket, known, type Match, not } from './packet.ts';

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
}

export interface NftRuleFacts {
  readonly handle: number;
  /** The statements, as JSON values. */
  readonly statements: readonly unknown[];
}

export const holdsFamily = ({ family }: NftTableFacts, packet: Family): boolean =>
  family === 'inet' || family === (packet === 'ipv4' ? 'ip' : 'ip6');

type Json = Readonly<Record<string, unknown>>;
export const objectOf = (value: unknown): Json => (typeof value === 'object' && value !== null ? (value as Json) : {});

/** Whether a packet passes a `match` statement; anything that is not understood matches perhaps. */
export function matchOf(statement: Json, packet: HookPacket): Match {
  const { op, left, right } = statement;
  const found = compare(objectOf(left), right, packet);
  if (op === '!=') return not(found);
  return op === '==' || op === 'in' ? found : 'perhaps';
}

function compare(left: Json, right: unknown, packet: HookPacket): Match {
  const payload = objectOf(left['payload']);
  const meta = objectOf(left['meta'])['key'];
  const ct = objectOf(left['ct'])['key'];
  const field = `${String(payload['protocol'])} ${String(payload['field'])}`;
  if (field === 'ip saddr' || field === 'ip6 saddr')
    return ofFamily(field, packet, () =>
      known(packet.source, (source) => isOneOf(right, (one) => isAddress(one, source))),
    );
  if (field === 'ip daddr' || field === 'ip6 daddr')
    return ofFamily(field, packet, () => yes(isOneOf(right, (one) => isAddress(one, packet.destination))));
  if (/^(tcp|udp|sctp|th) [ds]port$/.test(field)) {
    const [protocol = '', side] = field.split(' ');
    if (protocol !== 'th' && protocol !== packet.protocol) return 'no';
    return (side === 'dport') === packet.isReply ? 'perhaps' : yes(isOneOf(right, (one) => isPort(one, packet.port)));
  }
  if (field === 'ip protocol' || field === 'ip6 nexthdr' || meta === 'l4proto')
    return yes(isOneOf(right, (one) => one === packet.protocol));
  if (meta === 'nfproto') return yes(isOneOf(right, (one) => one === packet.family));
  if (meta === 'iifname' || meta === 'iif')
    return known(packet.in, (name) => isOneOf(right, (one) => isName(one, name)));
  if (meta === 'oifname' || meta === 'oif')
    return known(packet.out, (name) => isOneOf(right, (one) => isName(one, name)));
  if (ct === 'state') return yes(isOneOf(right, (one) => one === (packet.isReply ? 'established' : 'new')));
  if (ct === 'status') return isOneOf(right, (one) => one === 'dnat') ? yes(packet.isTranslated) : 'perhaps';
  return 'perhaps';
}

const yes = (value: boolean): Match => (value ? 'yes' : 'no');

const ofFamily = (field: string, { family }: HookPacket, test: () => Match): Match =>
  field.startsWith('ip6 ') === (family === 'ipv6') ? test() : 'no';

/** One value, a list, or an anonymous set; elements of named sets are not read: `undefined`. */
function isOneOf(right: unknown, test: (value: unknown) => boolean | undefined): boolean {
  const set = objectOf(right)['set'];
  const values = Array.isArray(right) ? right : Array.isArray(set) ? set : [right];
  return values.some((value) => test(value) === true);
}

function isAddress(value: unknown, address: string): boolean {
  const prefix = objectOf(objectOf(value)['prefix']);
  if (typeof prefix['addr'] === 'string') return inNetwork(`${prefix['addr']}/${String(prefix['len'])}`, address);
  return typeof value === 'string' && inNetwork(value, address);
}

function isPort(value: unknown, port: number): boolean {
  const range = objectOf(value)['range'];
  if (Array.isArray(range)) return port >= Number(range[0]) && port <= Number(range[1]);
  return value === port;
}

const isName = (value: unknown, name: string): boolean =>
  typeof value === 'string' && isInterface(value.endsWith('*') ? `${value.slice(0, -1)}+` : value, name);

/** `@name` refers to a named set, whose elements are not read here. */
export const asksNamedSet = (statement: Json): boolean =>
  typeof statement['right'] === 'string' && statement['right'].startsWith('@');
