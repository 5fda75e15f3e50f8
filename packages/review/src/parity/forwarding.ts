import { forwardAccepts, type Packet } from '@sluice/netfilter';
import type { ObservedNode } from '../observed/node.ts';
import { ObservedTracer } from './cases.ts';
import type { ComparedModes } from './differing-case.ts';
import type { Gap } from './gaps.ts';
import { isRefused } from './packets.ts';

/**
 * What a move to mode nftables takes from forwarded packets: no table of nftables can accept what another one refuses, so that a policy DROP
 * or a rule of a firewall meets packets that kube-proxy's chain let through before it.
 * @param node with the rules of all programs
 * @returns for a packet and what the node does with it: that it would then be refused
 */
export function lostForwarding(node: ObservedNode, modes: ComparedModes): (packet: Packet) => readonly Gap[] {
  const later = node.tables.withoutForwardAccepts();
  if (!later || modes.desired !== 'nftables' || modes.observed.includes('nftables')) return () => [];
  const today = new ObservedTracer(node);
  const then = new ObservedTracer({ ...node, tables: later });
  return (packet) => {
    const other = then.trace(packet);
    // Few are refused: the rest needs no second trace.
    if (other.kind !== 'traced' || !isRefused(other.outcome)) return [];
    const one = today.trace(packet);
    return one.kind === 'traced' && !isRefused(one.outcome) ? [gap] : [];
  };
}

const gap: Gap = {
  rule: undefined,
  what: `chain ${forwardAccepts}`,
  why: 'only it lets these packets through FORWARD, where the policy or a rule of another program refuses them, and mode nftables has nothing in its place: accept packets to pods there before the move, as most network plugins do',
};
