import type { TableName } from '../family.ts';
import type { Address } from '../rules/address.ts';
import type { TraceFlow } from '../packet/flow.ts';
import type { LiveHook, PacketState, TraceNotes } from './rule.ts';
import type { LiveTables } from './tables.ts';

/** The tables of an observed node, and what their rules ask of a packet besides its addresses. */
export interface LiveWorld {
  readonly tables: LiveTables;
  /** Filled by the trace. */
  readonly notes: TraceNotes;
  /** Default: the first packet of a connection. */
  readonly state?: PacketState;
  /** The interface that a packet leaves by; undefined: not known. */
  readonly outOf?: (destination: Address) => string | undefined;
}

/** Sends flows through a hook of the observed tables; those with a final verdict are left alone. */
export function passLive(
  { tables, notes, state = 'NEW', outOf = () => undefined }: LiveWorld,
  flows: readonly TraceFlow[],
  stage: TableName,
  at: Pick<LiveHook, 'name' | 'family' | 'protocol' | 'remembers' | 'isLocal' | 'in' | 'original'>,
): readonly TraceFlow[] {
  const isEnded = ({ verdict }: TraceFlow): boolean => verdict === 'drop' || verdict === 'reject';
  const open = flows.flatMap((flow) => (isEnded(flow) ? [] : [{ ...flow, verdict: undefined }]));
  return [...flows.filter(isEnded), ...tables.pass(open, stage, { ...at, notes, state, outOf })];
}
