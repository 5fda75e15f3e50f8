import type { Family, TableName } from '../family.ts';
import { perObject } from '../per-object.ts';
import { type Address, parseAddress } from '../rules/address.ts';
import { isInCidr, type Cidr, parseCidr, cidrContains } from '../rules/cidr.ts';
import { isSwitch } from '../rules/parts.ts';
import { readRule } from '../rules/read.ts';
import { certain, isRuleError, type Match, type Rule, type Test, type TransportProtocol } from '../rules/rule.ts';
import type { TraceFlow, Hook } from '../packet/flow.ts';
import { type RuleHit, TraceError } from '../packet/packet.ts';
import { findSet } from '../rules/sets.ts';

/** A rule parsed for many packets. */
export interface ReadyRule {
  readonly text: string;
  readonly rule: Rule;
  readonly source: Cidr | undefined;
  readonly destination: Cidr | undefined;
  /** The new destination of DNAT. */
  readonly translation: Address | undefined;
  /** Its entry in a path, for either table. */
  readonly hits: Readonly<Record<TableName, RuleHit>>;
}

/** Parses the rules of a chain. @throws TraceError for a line outside the grammar */
export const readyRules = (lines: readonly string[], { family }: Hook): readonly ReadyRule[] => readyOf[family](lines);

const readyOf = { ipv4: readyIn('ipv4'), ipv6: readyIn('ipv6') };

function readyIn(family: Family): (lines: readonly string[]) => readonly ReadyRule[] {
  return perObject((lines) => lines.map((text) => readyRule(text, family)));
}

function readyRule(text: string, family: Family): ReadyRule {
  const rule = readRule(text, family, 'program');
  if (isRuleError(rule)) throw new TraceError(`Cannot trace rule "${text}": ${rule.error}`);
  const { chain, source, destination, target } = rule;
  return {
    text,
    rule,
    source: source && parseCidr(source.value),
    destination: destination && parseCidr(destination.value),
    translation: target?.kind === 'dnat' ? parseAddress(target.address) : undefined,
    hits: { filter: { table: 'filter', chain, rule: text }, nat: { table: 'nat', chain, rule: text } },
  };
}

/** The probability with which a rule matches a flow: 0, 1, or that of its `statistic`. */
export function chanceOf(ready: ReadyRule, flow: TraceFlow, hook: Hook): number {
  const { rule } = ready;
  if (rule.protocol && rule.protocol !== hook.protocol) return 0;
  if (rule.destination && ready.destination) {
    if (isInCidr(flow.destination, ready.destination) === rule.destination.negated) return 0;
  }
  if (rule.source && ready.source && isInCidr(flow.source, ready.source) === rule.source.negated) return 0;
  if (rule.in && isInterface(rule.in, hook.in) === rule.in.negated) return 0;
  let chance = 1;
  for (const match of rule.matches) {
    if (match.kind === 'statistic') chance *= match.chance / certain;
    else if (!matches(match, flow, hook)) return 0;
  }
  if (rule.out) refuseOut(ready, hook);
  return chance;
}

function matches(match: Exclude<Match, { kind: 'statistic' }>, flow: TraceFlow, hook: Hook): boolean {
  switch (match.kind) {
    case 'comment':
      return true;
    case 'tcp':
    case 'udp':
    case 'sctp':
      return isPort(match, flow.port);
    case 'conntrack':
      return match.states.some((state) => state === 'NEW' || (state === 'DNAT' && flow.translated)) !== match.negated;
    case 'mark':
      return ((flow.mark & match.mask) >>> 0 === match.value) !== match.negated;
    case 'addrtype':
      return hook.isLocal(match.side === 'source' ? flow.source : flow.destination) !== (match.negated ?? false);
    case 'reflexive':
      return flow.source.text === flow.destination.text;
    case 'physdev':
      // The tracer has no bridges, so no packet arrives through a bridge port.
      return true;
    case 'set':
      return isSwitch(match.name) ? hook.switches.has(match.name) : isInSet(match, flow, hook);
    case 'ipvs':
      return flow.by?.address === match.address && flow.by.port === match.port && flow.by.protocol === match.protocol;
    case 'recent':
      return match.action === 'set' || match.name === hook.remembers;
  }
}

function isPort(
  { destinationPort, destinationPorts }: Extract<Match, { kind: TransportProtocol }>,
  port: number,
): boolean {
  if (destinationPorts) return port >= destinationPorts[0] && port <= destinationPorts[1];
  return destinationPort === undefined || destinationPort === port;
}

function isInterface(test: Test, name: string): boolean {
  return test.value.endsWith('+') ? name.startsWith(test.value.slice(0, -1)) : test.value === name;
}

/** The outgoing interface depends on the routing table, which the tracer does not know. */
function refuseOut(ready: ReadyRule, hook: Hook): never {
  throw new TraceError(
    `Cannot trace rule "${ready.text}" in ${hook.name}: it matches the outgoing interface, which the tracer does not know`,
  );
}

/**
 * Whether a set has an entry for the packet, as `-m set` matches it.
 * @throws TraceError for a set that the node does not have, and for a source port, which packets of the tracer do not have
 */
function isInSet(match: Extract<Match, { kind: 'set' }>, flow: TraceFlow, hook: Hook): boolean {
  const set = hook.sets?.get(match.name);
  const known = findSet(match.name);
  if (!set || !known)
    throw new TraceError(`Cannot trace a rule that matches set ${match.name}: the node does not have this set`);
  const [first, second, third] = match.sides;
  if (known.type === 'bitmap:port') return set.entries.has(String(portOf(first, flow, match.name)));
  const address = sideOf(first, flow);
  if (known.type === 'hash:ip') return set.entries.has(address);
  if (set.entries.size === 0) return false;
  const head = `${address},${hook.protocol}:${portOf(second, flow, match.name)}`;
  if (known.type === 'hash:ip,port') return set.entries.has(head);
  const last = sideOf(third, flow);
  if (set.entries.has(`${head},${last}`)) return true;
  if (known.type === 'hash:ip,port,ip') return false;
  return [...set.entries].some(
    (entry) => entry.startsWith(`${head},`) && cidrContains(entry.slice(head.length + 1), last),
  );
}

type SetSide = 'src' | 'dst' | undefined;

const sideOf = (side: SetSide, flow: TraceFlow): string => (side === 'src' ? flow.source.text : flow.destination.text);

function portOf(side: SetSide, flow: TraceFlow, name: string): number {
  if (side === 'src') throw new TraceError(`Cannot trace a rule that matches set ${name} with a source port`);
  return flow.port;
}
