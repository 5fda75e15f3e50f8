import { parseAddress } from '../rules/address.ts';
import type { RuleHit } from '../packet/packet.ts';
import { familyOfClient, isPriority, updateOf } from './nft-affinity.ts';
import { type Field, fieldOf, keysWithShares, type Spread, spreadOf } from './nft-fields.ts';
import { isNumber, nameAmong, type NftContext, readMatch, type Reading, refuse, sourcesNamed } from './nft-match.ts';
import { printStatements } from './nft-print.ts';
import { Elements, type Json, listOf, objectOf, textOf } from './nft-values.ts';
import type { Chosen, Effect, ListedRule, LiveRule, UnreadEffect } from './rule.ts';
import { always } from './tests.ts';

/** Reads the statements of a rule. Whatever is not understood stays in the rule, by name. */
export function readNftRule(
  statements: readonly unknown[],
  context: NftContext,
  place: Pick<RuleHit, 'chain' | 'owner'>,
  listed: Omit<ListedRule, 'counted'>,
): LiveRule {
  const isProxys = place.owner === 'proxy';
  const reading: Reading = {
    context,
    isProxys,
    tests: [],
    sources: [],
    effects: [],
    recent: undefined,
    reason: undefined,
    unread: undefined,
    cost: 1,
  };
  for (const statement of statements) readStatement(objectOf(statement), reading);
  const text = printStatements(statements);
  const { tests, sources, effects, recent, reason, unread, cost } = reading;
  const hit: RuleHit = {
    table: 'nftables',
    ...place,
    rule: text,
    ...(recent ? { recent } : {}),
    ...(reason === undefined ? {} : { reason }),
  };
  const effect: Effect = effects.length === 1 && effects[0] ? effects[0] : { kind: 'sequence', effects };
  return {
    text,
    hit,
    key: undefined,
    tests,
    sources,
    effect,
    unread,
    cost,
    listed: { ...listed, counted: countedBy(statements) },
    isProxys,
  };
}

function countedBy(statements: readonly unknown[]): number | undefined {
  const counted = statements.map((one) => objectOf(objectOf(one)['counter'])['packets']).find(Number.isInteger);
  return counted === undefined ? undefined : Number(counted);
}

/** Statements that change nothing that decides about a packet of a Service. */
const harmless: ReadonlySet<string> = new Set([
  'counter',
  'log',
  'last',
  'dup',
  'flow',
  'secmark',
  'ct helper',
  'ct timeout',
  'ct expectation',
]);

/** Statements that end a rule for some packets, and which ones is not known. */
const chances: ReadonlySet<string> = new Set(['limit', 'quota', 'ct count', 'meter']);

/** What statements do whose values are not read. */
const unreadStatements: ReadonlyMap<string, UnreadEffect['does']> = new Map([
  ['dnat', 'translate'],
  ['redirect', 'translate'],
  ['mangle', 'mark'],
]);

/** A header that is written again is a translation, too. */
const doesUnread = (name: string, { key }: Json): UnreadEffect['does'] | undefined =>
  name === 'mangle' && objectOf(key)['payload'] !== undefined ? 'translate' : unreadStatements.get(name);

function pushUnread(reading: Reading, what: string, does: UnreadEffect['does'] = 'else'): void {
  refuse(reading, what);
  reading.effects.push({ kind: 'unread', because: `${what} is not read`, does });
}

function readStatement(statement: Json, reading: Reading): void {
  const [name = ''] = Object.keys(statement);
  const body = statement[name];
  if (name === 'match') {
    if (reading.effects.some(({ kind }) => kind !== 'none')) refuse(reading, 'a test behind an action');
    else readMatch(objectOf(body), reading);
    return;
  }
  if (name === 'set') {
    const { set, stmt } = objectOf(body);
    // `update @meter { ip saddr limit rate 10/second }` ends the rule for some packets.
    if (listOf(stmt).some((one) => !harmless.has(Object.keys(objectOf(one))[0] ?? ''))) {
      pushUnread(reading, 'a set with statements');
    } else if (reading.isProxys) reading.recent = { action: 'set', name: textOf(set).replace(/^@/, '') };
    return;
  }
  if (harmless.has(name)) return;
  if (name === 'text') {
    pushUnread(reading, JSON.stringify(textOf(body).slice(0, 100)));
    return;
  }
  if (chances.has(name)) {
    refuse(reading, `statement ${name}`);
    return;
  }
  const effect = effectOf(name, body, reading);
  if (effect) reading.effects.push(effect);
  else pushUnread(reading, `statement ${name}`, doesUnread(name, objectOf(body)));
}

const verdicts: ReadonlySet<string> = new Set(['accept', 'drop', 'return', 'continue', 'jump', 'goto']);

function verdictOf(value: unknown): Effect | undefined {
  const [name = ''] = Object.keys(objectOf(value));
  if (!verdicts.has(name)) return undefined;
  if (name === 'continue') return { kind: 'none' };
  if (name === 'jump' || name === 'goto')
    return { kind: name, chain: textOf(objectOf(objectOf(value)[name])['target']) };
  return { kind: name as 'accept' | 'drop' | 'return' };
}

function effectOf(name: string, body: unknown, reading: Reading): Effect | undefined {
  if (verdicts.has(name)) return verdictOf({ [name]: body });
  switch (name) {
    case 'reject': {
      const { type, expr } = objectOf(body);
      const isUsual =
        type === undefined || (type !== 'tcp reset' && (expr === undefined || expr === 'port-unreachable'));
      if (!isUsual) reading.reason = type === 'tcp reset' ? 'tcp-reset' : textOf(expr);
      return { kind: 'reject' };
    }
    case 'notrack':
      return { kind: 'untrack' };
    case 'masquerade':
    case 'snat':
      return { kind: 'masquerade' };
    case 'map':
      return reading.isProxys ? updateOf(objectOf(body), (map) => reading.context.sets.get(map)?.fillsFor) : undefined;
    case 'mangle':
      return isPriority(objectOf(body)['key']) ? priorityOf(objectOf(body)['value'], reading) : markOf(objectOf(body));
    case 'vmap':
      return chooseOf(objectOf(body)['key'], objectOf(body)['data'], reading, verdictOf);
    case 'redirect':
      return redirectOf(objectOf(body)['port']);
    case 'dnat':
      return dnatOf(objectOf(body), reading);
    default:
      return undefined;
  }
}

/** `meta priority set none`, `… map @slot4`, and of a client `… map @aff4`. */
function priorityOf(value: unknown, reading: Reading): Effect | undefined {
  const { key, data } = objectOf(objectOf(value)['map']);
  if (key === undefined) return textOf(value) === '' ? undefined : { kind: 'priority', value: textOf(value) };
  const name = textOf(data).replace(/^@/, '');
  if (reading.context.sets.get(name)?.fillsFor === undefined)
    return chooseOf(key, data, reading, (one) =>
      textOf(one) === '' ? undefined : { kind: 'priority', value: textOf(one) },
    );
  return reading.isProxys && familyOfClient(key) ? { kind: 'recall', map: name } : undefined;
}

function markOf({ key, value }: Json): Effect | undefined {
  const ct = objectOf(objectOf(key)['ct'])['key'];
  if (ct === 'mark') return connectionMarkOf(value);
  // Of a connection, labels, zones and helpers decide nothing here.
  if (ct !== undefined && ct !== 'zone') return { kind: 'none' };
  if (harmlessMetas.has(textOf(objectOf(objectOf(key)['meta'])['key']))) return { kind: 'none' };
  // The size of segments, the time to live and the class of service lead a packet nowhere else.
  if (objectOf(key)['tcp option'] !== undefined) return { kind: 'none' };
  if (harmlessFields.has(textOf(objectOf(objectOf(key)['payload'])['field']))) return { kind: 'none' };
  if (textOf(objectOf(objectOf(key)['meta'])['key']) !== 'mark') return undefined;
  const restored = bitsOfMark(value, 'ct');
  if (restored !== undefined) return { kind: 'restore-mark', from: restored, to: allBits };
  const { '|': or, '^': xor, '&': and } = objectOf(value);
  const operands = listOf(or ?? xor ?? and);
  const isOfMark = textOf(objectOf(objectOf(operands[0])['meta'])['key']) === 'mark' && isNumber(operands[1]);
  if (operands.length > 0 && !isOfMark) return undefined;
  const operand = (list: unknown): number => Number(textOf(listOf(list)[1])) >>> 0;
  if (or !== undefined) return { kind: 'mark', value: operand(or), mask: operand(or) };
  if (xor !== undefined) return { kind: 'mark', value: operand(xor), mask: 0 };
  if (and !== undefined) return { kind: 'mark', value: 0, mask: ~operand(and) >>> 0 };
  return /^\d+$/.test(textOf(value)) ? { kind: 'mark', value: Number(value), mask: 0xffffffff } : undefined;
}

const allBits = 0xffffffff;
const harmlessMetas: ReadonlySet<string> = new Set(['nftrace', 'pkttype', 'priority', 'secmark']);
const harmlessFields: ReadonlySet<string> = new Set(['ttl', 'hoplimit', 'dscp', 'ecn']);

/** `meta mark`, `ct mark & 0x80`: the bits that are read. @returns undefined for another expression */
function bitsOfMark(value: unknown, of: 'meta' | 'ct'): number | undefined {
  const [bare, mask] = listOf(objectOf(value)['&']).length > 0 ? listOf(objectOf(value)['&']) : [value];
  if (objectOf(objectOf(bare)[of])['key'] !== 'mark') return undefined;
  return mask === undefined ? allBits : isNumber(mask) ? Number(textOf(mask)) >>> 0 : undefined;
}

/** `ct mark set meta mark`, `ct mark set 0x80`, `ct mark set ct mark | 0x80`. */
function connectionMarkOf(value: unknown): Effect | undefined {
  const saved = bitsOfMark(value, 'meta');
  if (saved !== undefined) return { kind: 'save-mark', from: saved, to: allBits };
  const { '|': or } = objectOf(value);
  const [bare, bits] = or === undefined ? [undefined, value] : listOf(or);
  if (!isNumber(bits) || (or !== undefined && bitsOfMark(bare, 'ct') === undefined)) return undefined;
  const set = Number(textOf(bits)) >>> 0;
  return { kind: 'connection-mark', value: set, mask: or === undefined ? allBits : set };
}

function dnatOf({ addr, port }: Json, reading: Reading): Effect | undefined {
  const map = objectOf(addr)['map'];
  if (map !== undefined) {
    const { key, data } = objectOf(map);
    return chooseOf(key, data, reading, (value) => {
      const parts = listOf(objectOf(value)['concat']);
      return translation(textOf(parts[0] ?? value), parts[1] ?? port);
    });
  }
  return translation(textOf(addr), port);
}

/** To the node itself; a table of both families has one rule for both. */
function redirectOf(port: unknown): Effect | undefined {
  if (port !== undefined && !isNumber(port)) return undefined;
  const to = (loopback: string): Chosen => ({
    share: 1,
    effect: { kind: 'dnat', address: parseAddress(loopback), port: port === undefined ? undefined : Number(port) },
    element: port === undefined ? 'redirect' : `redirect to :${textOf(port)}`,
  });
  return { kind: 'choose', of: (_flow, { family }) => [to(family === 'ipv4' ? '127.0.0.1' : '::1')] };
}

function translation(to: string, port: unknown): Effect | undefined {
  const address = parseAddress(to);
  if (!address || (port !== undefined && !isNumber(port))) return undefined;
  return { kind: 'dnat', address, port: port === undefined ? undefined : Number(port) };
}

/** One element of a map, by the packet or by chance. */
function chooseOf(
  key: unknown,
  data: unknown,
  reading: Reading,
  effectIn: (value: unknown) => Effect | undefined,
): Effect | undefined {
  const { context, sources } = reading;
  const named = typeof data === 'string' && data.startsWith('@') ? context.sets.get(data.slice(1)) : undefined;
  const set = objectOf(data)['set'];
  const elements = named?.elements ?? (Array.isArray(set) ? new Elements(set, true) : undefined);
  if (!elements || named?.fillsFor !== undefined) return undefined;
  const fields = (listOf(objectOf(key)['concat']).length > 0 ? listOf(objectOf(key)['concat']) : [key]).map(
    (part): Field | Spread | undefined => spreadOf(part) ?? fieldOf(part),
  );
  if (fields.some((field) => field === undefined)) return undefined;
  const all = fields as readonly (Field | Spread)[];
  if (elements.unread !== undefined || nameAmong(all, elements) !== undefined) return undefined;
  reading.cost += elements.wide;
  const title = typeof data === 'string' ? `${data} ` : '';
  const divides = sourcesNamed(all, elements, always);
  if (divides) sources.push(divides);
  return {
    kind: 'choose',
    of: (flow, hook) => {
      const found: Chosen[] = [];
      const keys = keysWithShares(all, flow, hook);
      if (!keys) return undefined;
      for (const { parts, share } of keys) {
        const value = elements.find(parts);
        const effect = value === undefined ? undefined : effectIn(value);
        if (value !== undefined && !effect) return undefined;
        if (effect)
          found.push({ share, effect, element: `${title}${parts.join(' . ')} : ${printStatements([value])}` });
      }
      return found;
    },
  };
}
