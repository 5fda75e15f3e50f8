import type { TraceFlow } from '../packet/flow.ts';
import { listOf, objectOf, textOf } from './nft-values.ts';
import type { LiveHook, LiveTest } from './rule.ts';

/** Fields of a packet that rules ask for bit by bit. */
interface Bits {
  readonly value: number;
  /** The bits of the value that are known. */
  readonly known: number;
}

/** @returns undefined: the packet has no such field, so that no test of it matches, nor the opposite */
type BitField = (flow: TraceFlow, hook: LiveHook) => Bits | undefined;

const all = 0xffffffff;

/** Names of the bits, from the lowest. */
const flagNames = ['fin', 'syn', 'rst', 'psh', 'ack', 'urg', 'ecn', 'cwr'] as const;
const statusNames = ['expected', 'seen-reply', 'assured', 'confirmed', 'snat', 'dnat'] as const;

/** The first packet of a connection is a SYN, the first answer is SYN with ACK; later ones have ACK. */
export const tcpFlags: BitField = (_flow, { protocol, state, isReply }) => {
  if (protocol !== 'tcp') return undefined;
  if (state === 'NEW') return { value: 0x02, known: all };
  if (state !== 'ESTABLISHED') return { value: 0, known: 0 };
  return isReply ? { value: 0x12, known: all } : { value: 0x10, known: 0x12 };
};

const status: BitField = ({ translated, masquerade }, { state }) => ({
  value: (translated ? 0x20 : 0) | (masquerade ? 0x10 : 0) | (state === 'ESTABLISHED' ? 0x02 : 0),
  known: 0x20 | (masquerade ? 0x10 : 0) | 0x02,
});

export const packetMark: BitField = ({ mark, unknownMark }, { hidden }) => ({
  value: mark,
  known: hidden?.mark ? 0 : (all & ~unknownMark) >>> 0,
});

/** Of an established connection, an earlier packet may have set it. */
export const connectionMark: BitField = ({ connectionMark: value }, { hidden, state }) => ({
  value,
  known: hidden?.mark || state !== 'NEW' ? 0 : all,
});

/** Connection tracking puts fragments together before any rule sees them; whether more may be made is not known. */
const fragment: BitField = (_flow, { family }) => (family === 'ipv4' ? { value: 0, known: 0xbfff } : undefined);

/** All of some bits have a value. */
export const hasBits = (field: BitField, mask: number, wanted: number, isNegated = false): LiveTest =>
  bitTest(field, isNegated, ({ value, known }) => {
    if (((value ^ wanted) & mask & known) !== 0 || (wanted & ~mask) !== 0) return false;
    return (mask & ~known) === 0 ? true : undefined;
  });

/** At least one of some bits is set. */
const hasAnyBit = (field: BitField, mask: number, isNegated = false): LiveTest =>
  bitTest(field, isNegated, ({ value, known }) => {
    if ((value & known & mask) !== 0) return true;
    return (mask & ~known) === 0 ? false : undefined;
  });

const bitTest =
  (field: BitField, isNegated: boolean, answer: (bits: Bits) => boolean | undefined): LiveTest =>
  (flow, hook) => {
    const bits = field(flow, hook);
    const found = bits ? answer(bits) : isNegated;
    return found === undefined ? undefined : found === isNegated ? 0 : 1;
  };

/** `FIN,SYN,RST,ACK`, `ALL`, `NONE` of iptables. @returns undefined for another text */
export function flagsIn(text: string): number | undefined {
  if (text === 'ALL') return 0x3f;
  return text === 'NONE' ? 0 : bitsIn(text.toLowerCase().split(','), flagNames);
}

const bitsIn = (names: readonly string[], known: readonly string[]): number | undefined => {
  const places = names.map((name) => known.indexOf(name));
  return places.includes(-1) ? undefined : places.reduce((bits, place) => bits | (1 << place), 0);
};

/** How an expression of nftables spells a field of bits; undefined: it is none. */
function bitFieldOf(expression: unknown): { readonly field: BitField; readonly names: readonly string[] } | undefined {
  const { payload, meta, ct } = objectOf(expression);
  const { protocol, field } = objectOf(payload);
  if (protocol === 'tcp' && field === 'flags') return { field: tcpFlags, names: flagNames };
  if (protocol === 'ip' && field === 'frag-off') return { field: fragment, names: [] };
  if (objectOf(meta)['key'] === 'mark') return { field: packetMark, names: [] };
  const { key, dir } = objectOf(ct);
  if (key === 'mark' && dir === undefined) return { field: connectionMark, names: [] };
  return key === 'status' ? { field: status, names: statusNames } : undefined;
}

/**
 * A test of bits: `tcp flags & (fin | syn) == syn`, `ct status dnat`, `meta mark & 0x4000 != 0x4000`.
 * @returns undefined: it is no such test, or has a value that is not read
 */
export function bitTestOf(op: string, left: unknown, right: unknown): LiveTest | undefined {
  const [bare, masked] = Array.isArray(objectOf(left)['&']) ? listOf(objectOf(left)['&']) : [left];
  const of = bitFieldOf(bare);
  if (!of) return undefined;
  const { field, names } = of;
  const mask = masked === undefined ? all : numberIn(masked, names);
  const members = objectOf(right)['set'];
  const values = (Array.isArray(members) ? members : [right]).map((one) => numberIn(one, names));
  const [first] = values;
  if (mask === undefined || first === undefined || values.includes(undefined)) return undefined;
  if (op === 'in' || op === '!') return hasAnyBit(field, mask & first, op === '!');
  if (op !== '==' && op !== '!=') return undefined;
  const isNegated = op === '!=';
  const tests = (values as readonly number[]).map((value) => hasBits(field, mask, value, isNegated));
  // One of several values; of a negation none.
  return (flow, hook) => {
    const found = tests.map((test) => test(flow, hook));
    const decided = found.find((one) => one === (isNegated ? 0 : 1));
    return decided ?? (found.includes(undefined) ? undefined : isNegated ? 1 : 0);
  };
}

/** `syn`, `["fin", "syn"]`, `{"|": ["syn", "ack"]}`, `128` */
function numberIn(value: unknown, names: readonly string[]): number | undefined {
  const list = objectOf(value)['|'] ?? value;
  const parts = (Array.isArray(list) ? list : [list]).map((one): number | undefined => {
    if ('|' in objectOf(one)) return numberIn(one, names);
    const text = textOf(one);
    return /^\d+$/.test(text) ? Number(text) >>> 0 : bitsIn([text], names);
  });
  return parts.includes(undefined)
    ? undefined
    : (parts as readonly number[]).reduce((bits, part) => bits | part, 0) >>> 0;
}
