import { cidrContains } from '../rules/cidr.ts';
import type { Match } from '../rules/rule.ts';
import { findSet } from '../rules/sets.ts';
import type { TraceFlow, Hook } from '../packet/flow.ts';
import { TraceError } from '../packet/packet.ts';

/**
 * Whether a set has an entry for the packet, as `-m set` matches it.
 * @throws TraceError for a set that the node does not have, and for a source port, which packets of the tracer do not have
 */
export function isInSet(match: Extract<Match, { kind: 'set' }>, flow: TraceFlow, hook: Hook): boolean {
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
