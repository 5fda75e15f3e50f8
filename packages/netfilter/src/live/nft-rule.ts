import { parseAddress } from '../rules/address.ts';
import type { RuleHit } from '../packet/packet.ts';
import { familyOfClient, isPriority, updateOf } from './nft-affinity.ts';
import { type Field, fieldOf, keysOf, keysWithShares, type Spread, spreadOf } from './nft-fields.ts';
import { printStatements } from './nft-print.ts';
import { Elements, elementsOf, type Json, listOf, objectOf, textOf, widePart } from './nft-values.ts';
import type { Chosen, Effect, ListedRule, LiveHook, LiveRule, LiveTest, SourceTest, UnreadEffect } from './rule.ts';
import type { TraceFlow } from '../packet/flow.ts';
import { always, hasMark, isLoopback, networkIn, not } from './tests.ts';

/** What a rule of a table may refer to. */
export interface NftContext {
  readonly sets: ReadonlyMap<string, NftSet>;
}

export interface NftSet {
  readonly elements: Elements;
  /** Packets fill it: who is in it is not known. Of those of session affinity: for how long, in seconds. */
  readonly fillsFor: number | undefined;
}

interface Reading {
  readonly context: NftContext;
  /** Whether the table is kube-proxy's or Sluice's: sets that packets fill are those of session affinity there alone. */
  readonly isProxys: boolean;
  readonly tests: LiveTest[];
  readonly sources: SourceTest[];
  readonly effects: Effect[];
  recent: RuleHit['recent'];
  reason: string | undefined;
  unread: string | undefined;
  cost: number;
}

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
const harmless: ReadonlySet<string> = new Set(['counter', 'log']);

/** Statements that end a rule for some packets, and which ones is not known. */
const chances: ReadonlySet<string> = new Set(['limit', 'quota', 'ct count']);

/** What statements do whose values are not read. */
const unreadStatements: ReadonlyMap<string, UnreadEffect['does']> = new Map([
  ['dnat', 'translate'],
  ['redirect', 'translate'],
  ['mangle', 'mark'],
]);

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
  else pushUnread(reading, `statement ${name}`, unreadStatements.get(name));
}

function refuse(reading: Reading, what: string): void {
  reading.unread ??= `${what} is not read`;
}

function readMatch({ op, left, right }: Json, reading: Reading): void {
  const isNegated = op === '!=';
  if (!['==', '!=', 'in'].includes(textOf(op))) return refuse(reading, `operator ${textOf(op)}`);
  const marked = maskOf(left);
  if (marked !== undefined) {
    if (!isNumber(right) || !Number.isInteger(marked)) return refuse(reading, `test of ${JSON.stringify(left)}`);
    const wanted = Number(textOf(right)) >>> 0;
    const test = hasMark(wanted, marked);
    reading.tests.push(isNegated ? not(test) : test);
    return;
  }
  // A scheduler or another program may have set it before.
  if (isPriority(left) && !reading.isProxys) return refuse(reading, 'test of the priority');
  const concat = objectOf(left)['concat'];
  const fields = (Array.isArray(concat) ? concat : [left]).map(fieldOf);
  if (fields.some((field) => field === undefined)) return refuse(reading, `test of ${JSON.stringify(left)}`);
  const all = fields as readonly Field[];
  const named = typeof right === 'string' && right.startsWith('@') ? right.slice(1) : undefined;
  const set = named === undefined ? undefined : reading.context.sets.get(named);
  if (named !== undefined && set === undefined) return refuse(reading, `set ${named}`);
  if (named !== undefined && set?.fillsFor !== undefined && !reading.isProxys)
    return refuse(reading, `set ${named}, whose elements packets add or time removes,`);
  if (named !== undefined && set?.fillsFor !== undefined) {
    reading.recent = { action: 'rcheck', name: named, seconds: set.fillsFor };
    const remembered: LiveTest = (_flow, hook) => (hook.remembers === named ? 1 : 0);
    reading.tests.push(isNegated ? not(remembered) : remembered);
    return;
  }
  const elements = set?.elements ?? elementsOf(right);
  const odd = elements.unread ?? nameAmong(all, elements);
  if (odd !== undefined) return refuse(reading, `element ${odd}`);
  reading.cost += elements.wide;
  addTest(all, elements, memberTest(all, elements, isNegated), reading);
}

/** A name where packets have a number: `nft -S` prints ports as `http`. */
const nameAmong = (fields: readonly (Field | Spread)[], { all }: Elements): string | undefined =>
  all.flatMap(({ parts }) =>
    parts.filter((text, at) => {
      const field = fields[at];
      return field !== undefined && 'isNumber' in field && !/^\d+(?:-\d+)?$/.test(text);
    }),
  )[0];

/** `meta mark & 0x4000`: the mask; `meta mark` alone: all bits. */
function maskOf(left: unknown): number | undefined {
  const masked = objectOf(left)['&'];
  if (!Array.isArray(masked)) return undefined;
  const [of, mask] = masked;
  if (textOf(objectOf(objectOf(of)['meta'])['key']) !== 'mark') return undefined;
  return isNumber(mask) ? Number(mask) >>> 0 : Number.NaN;
}

const isNumber = (value: unknown): boolean => /^\d+$/.test(textOf(value));

/** A packet without a field, such as one of the other family, matches neither a test of it nor the negation. */
function memberTest(fields: readonly Field[], elements: Elements, isNegated: boolean): LiveTest {
  return (flow, hook) => {
    const keys = keysOf(fields, flow, hook);
    if (!keys) return isOfLoopback(fields, elements, hook) ? yesIf(isNegated) : undefined;
    if (keys.length === 0) return 0;
    return keys.some((key) => elements.find(key) !== undefined) === isNegated ? 0 : 1;
  };
}

const yesIf = (is: boolean): 0 | 1 => (is ? 1 : 0);

/** Whether a test asks for the node's own packets alone, by their interface. */
const isOfLoopback = ([field, ...more]: readonly Field[], { all }: Elements, hook: LiveHook): boolean =>
  hook.in === undefined &&
  more.length === 0 &&
  field?.asks === 'interface-of-source' &&
  all.length > 0 &&
  all.every(({ parts: [name = ''] }) => isLoopback(name));

function addTest(fields: readonly Field[], elements: Elements, test: LiveTest, { tests, sources }: Reading): void {
  const divides = sourcesNamed(fields, elements, test);
  if (divides) sources.push(divides);
  else tests.push(test);
}

/** Of what divides sources, the parts that elements name for packets to this destination; undefined: nothing does. */
function sourcesNamed(fields: readonly (Field | Spread)[], elements: Elements, test: LiveTest): SourceTest | undefined {
  const at = fields.findIndex((field) => 'asks' in field && field.asks !== 'else');
  const asked = fields[at];
  if (!asked || 'count' in asked) return undefined;
  const others = fields.flatMap((field, index) => (index === at || 'count' in field ? [] : [{ field, index }]));
  let index: ReadonlyMap<string, Elements['all']> | undefined;
  const named = (flow: TraceFlow, hook: LiveHook): readonly string[] => {
    // Tables have a hundred thousand elements, of which few are for one destination.
    index ??= elements.byParts(others.map((other) => other.index));
    const keys = keysOf(
      others.map((other) => other.field),
      flow,
      hook,
    );
    if (!keys) return [];
    const isHere = (key: readonly string[], { holds }: Elements['all'][number]): boolean =>
      others.every((other, place) => holds(other.index, key[place] ?? ''));
    const wide = index.get(widePart) ?? [];
    const found = keys.flatMap((key) => [
      ...(index?.get(key.join(' . ')) ?? []),
      ...wide.filter((element) => isHere(key, element)),
    ]);
    return found.map(({ parts }) => parts[at] ?? '');
  };
  if (asked.asks === 'interface-of-source')
    return {
      test,
      networks: () => [],
      interfaces: elements.all
        .map(({ parts }) => (parts[at] ?? '').replace(/\*$/, '0'))
        .filter((name) => name !== 'lo'),
    };
  return {
    test,
    // Of a range from one address to another its first stands for all.
    networks: (flow, hook) =>
      named(flow, hook)
        .map((text) => text.replace(/-.*$/, ''))
        .filter((text) => (networkIn(text)?.prefix ?? 0) > 0),
    interfaces: [],
  };
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
  if (textOf(objectOf(objectOf(key)['ct'])['key']) === 'mark') return { kind: 'none' };
  if (textOf(objectOf(objectOf(key)['meta'])['key']) !== 'mark') return undefined;
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
