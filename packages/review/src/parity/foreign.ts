import { emptyProgram, type Packet, type RuleHit, trace, traceNotes } from '@sluice/netfilter';
import type { FlowOutcome } from '../flows/flow.ts';
import { asSent } from '../flows/program.ts';
import type { NodeProgram } from '../flows/planes/plane.ts';
import type { ObservedNode } from '../observed/node.ts';
import { isRefused } from './packets.ts';

/**
 * The rule of another program that decided about a packet, if one did: the last of a path that ends there.
 * @param isAdmitted rules of Services would refuse it: one that accepts it before them decides, as after a reload of a firewall
 */
export function foreignOf(node: ObservedNode, packet: Packet, isAdmitted: boolean): RuleHit | undefined {
  const { ipvs, addresses, tables, interfaceTo } = node;
  const live = { tables, notes: traceNotes(), outOf: interfaceTo };
  const program: NodeProgram = { rules: emptyProgram, live, ...(ipvs ? { ipvs } : {}) };
  const outcomes = trace(emptyProgram, asSent(packet, program), { localAddresses: addresses, ipvs, live });
  return outcomes
    .flatMap(({ path }) => [...path.filter(isDeciding), ...(isAdmitted ? [admittedBy(path) ?? []].flat() : [])])
    .at(-1);
}

/**
 * What another program does with a packet to no Service it does after a move, too. But none refuses packets where destinations are
 * translated: a policy there was changed by hand, and spares the packets of Services alone.
 */
export const isOfTranslation = ({ table, rule }: RuleHit, outcome: FlowOutcome): boolean =>
  isRefused(outcome) && (table === 'nat' || rule.startsWith('policy drop of nat chain'));

/** An accept of another program lets a packet continue, except in nat, where no later rule translates it. */
function isDeciding({ table, owner, rule }: RuleHit): boolean {
  if (owner !== 'foreign') return false;
  if (/ -j (?:DROP|REJECT|DNAT|REDIRECT)\b|^-P |^policy drop|\b(?:drop|reject|dnat to|redirect)\b/.test(rule))
    return true;
  return table === 'nat' && / -j (?:ACCEPT|RETURN)\b/.test(rule);
}

/** The accept of another program before the jumps of a proxy: behind them it admits what no rule of a Service refuses. */
export function admittedBy(path: readonly RuleHit[]): RuleHit | undefined {
  const proxys = path.findIndex(({ owner, table }) => table === 'filter' && owner !== 'foreign');
  return path.slice(0, proxys < 0 ? path.length : proxys).find(isAdmitting);
}

/** An accept of another program in the table where rules of Services refuse. */
export const isAdmitting = ({ owner, table, rule }: RuleHit): boolean =>
  owner === 'foreign' && table === 'filter' && / -j ACCEPT\b/.test(rule);
