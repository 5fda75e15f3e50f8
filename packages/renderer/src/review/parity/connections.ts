import { liberalKey, type Observation } from '@sluice/bundle';
import {
  addAll,
  emptyProgram,
  type Family,
  type Packet,
  type PacketState,
  trace,
  traceNotes,
  TraceError,
} from '@sluice/netfilter';
import { factOf, type NodeOf } from '../bundle/node.ts';
import type { BundleView } from '../bundle/view.ts';
import { baseTreatmentOf } from '../flows/base-treatment.ts';
import type { Gap } from './cases.ts';
import type { ObservedNode } from '../observed/node.ts';

/** Later packets of connections, and packets of none, that a node forwards between its pods and others. */
export interface ConnectionCase {
  readonly state: 'established' | 'invalid';
  readonly packet: Packet;
  readonly observed: 'drop' | 'pass';
  readonly desired: 'drop' | 'pass';
  /** A rule of another program that drops it. */
  readonly foreign: string | undefined;
}

/** The cases of a node, and what stands in the way of others. */
export interface ConnectionCases {
  readonly cases: readonly ConnectionCase[];
  readonly gaps: readonly Gap[];
}

const states = { established: 'ESTABLISHED', invalid: 'INVALID' } as const satisfies Record<string, PacketState>;

/**
 * Packets that are not the first of a connection, by state: the base rules of a profile decide about them, not those of Services.
 * @returns a case for each state, none where the node's pods are not known; and rules that are not understood
 */
export function connectionCases(
  view: BundleView,
  node: NodeOf,
  observed: ObservedNode,
  { host, sysctls }: Observation,
): ConnectionCases {
  const { family } = observed.tables;
  const treatment = baseTreatmentOf(view, node.file.profile, family);
  const packet = forwarded(node, family, observed);
  const gaps: Gap[] = [];
  if (!packet) return { cases: [], gaps };
  const cases = (['established', 'invalid'] as const).flatMap((state): readonly ConnectionCase[] => {
    const found = verdictOf(observed, packet, states[state]);
    if (Array.isArray(found)) {
      addAll(gaps, found);
      return [];
    }
    // With liberal windows the kernel marks fewer packets INVALID, and neither program has a rule that drops them.
    const isLiberal = state === 'invalid' && (host?.tcpBeLiberal ?? (sysctls[liberalKey] ?? '0') !== '0');
    const isDropped = treatment[state].startsWith('DROP') && !isLiberal;
    return [{ state, packet, ...found, desired: isDropped ? 'drop' : 'pass' }];
  });
  return { cases, gaps };
}

/** A client, to a pod, to a pod of this node. */
function forwarded(node: NodeOf, family: Family, observed: ObservedNode): Packet | undefined {
  const pods = factOf(node, family, 'podCIDR');
  if (pods === undefined) return undefined;
  const host = pods.slice(0, pods.indexOf('/')).replace(/\.0$|::$/, family === 'ipv4' ? '.10' : '::a');
  const source = family === 'ipv4' ? '198.51.100.7' : '2001:db8:ffff::7';
  if (observed.addresses.includes(host)) return undefined;
  return { family, source, destination: host, protocol: 'tcp', port: 8080, in: 'eth0' };
}

function verdictOf(
  { tables, addresses, interfaceTo }: ObservedNode,
  packet: Packet,
  state: PacketState,
): Pick<ConnectionCase, 'observed' | 'foreign'> | Gap[] {
  const notes = traceNotes();
  const live = { tables, notes, state, outOf: interfaceTo };
  try {
    const [outcome] = trace(emptyProgram, packet, { localAddresses: addresses, live });
    if (!outcome || notes.doubts.size > 0) return [...notes.doubts].map(([rule, why]) => ({ rule, why }));
    const isDropped = outcome.verdict === 'drop' || outcome.verdict === 'reject';
    const last = outcome.path.at(-1);
    return {
      observed: isDropped ? 'drop' : 'pass',
      foreign: isDropped && last?.owner === 'foreign' ? last.rule : undefined,
    };
  } catch (error) {
    if (error instanceof TraceError) return [{ rule: undefined, why: error.message }];
    throw error;
  }
}
