import { type MissingPart, type Observation, partOf } from '@sluice/bundle';
import { emptyProgram, type Family, type Packet, parseAddress, trace, traceNotes, TraceError } from '@sluice/netfilter';
import { asSent } from '../flows/program.ts';
import { observedNode } from '../observed/node.ts';
import { unreadParts } from '../observed/parts.ts';
import type { PlaceOf } from '../observed/place.ts';
import { cannotTrace, type TracedPath } from './trace-node.ts';

/** A packet to trace through the observed rules of a node. */
export interface LiveQuestion extends Pick<Packet, 'destination' | 'protocol' | 'port'> {
  readonly family: Family;
  /** An address, or `node` for the node itself. */
  readonly from: string;
  /** The incoming interface; absent: that of the route to the source. */
  readonly in?: string;
}

/** The paths of a packet through what a kernel holds. */
export interface LiveTrace {
  readonly node: string;
  readonly packet: Packet;
  /** Assumptions where the question is incomplete, as sentences without a full stop. */
  readonly assumed: readonly string[];
  readonly ways: readonly TracedPath[];
  /** Rules that may match and are not understood: the paths are those without them. */
  readonly unread: readonly { readonly rule: string; readonly at?: string; readonly why: string }[];
  /** Parts of the observation that were not read and may have rules for the packet. */
  readonly missing: readonly MissingPart[];
}

/**
 * Traces the first packet of a connection through an observed node.
 * @throws Stopped: there is no address to send from, or a chain is missing
 */
export function traceLive(seen: Observation, question: LiveQuestion, placeOf: PlaceOf): LiveTrace {
  const { family, destination, protocol, port } = question;
  const unreadOf = unreadParts(seen, family);
  if (unreadOf.length > 0)
    throw cannotTrace(
      undefined,
      `cannot say: ${unreadOf.map(({ part, why }) => `${part} was not read (${why})`).join('; ')}`,
      'Bring what is missing, and observe again',
    );
  const node = observedNode(seen, family, []);
  const assumed: string[] = [];
  const to = { family, destination, protocol, port };
  const source = question.from === 'node' ? ownSource(destination, node.addresses) : question.from;
  if (source === undefined)
    throw cannotTrace(undefined, 'the observation has no address of the node', 'Give a source address with --from');
  const isOwn = question.from === 'node' || (node.addresses.includes(source) && question.in === undefined);
  const address = parseAddress(source);
  const routed = isOwn || !address ? undefined : node.interfaceTo(address);
  const incoming = isOwn ? undefined : (question.in ?? routed ?? 'eth0');
  if (!isOwn && question.in === undefined)
    assumed.push(
      routed === undefined
        ? 'the packet arrives on eth0: the observation has no route to its source'
        : `the packet arrives on ${routed}: the route to its source leads there`,
    );
  const notes = traceNotes();
  const live = { tables: node.tables, notes, outOf: node.interfaceTo };
  const program = { rules: emptyProgram, live, ...(node.ipvs ? { ipvs: node.ipvs } : {}) };
  const packet = asSent(incoming === undefined ? { ...to, source } : { ...to, source, in: incoming }, program);
  try {
    const world = { localAddresses: node.addresses, ipvs: node.ipvs, live };
    const ways = trace(emptyProgram, packet, world).map(({ path, ...rest }) => ({
      ...rest,
      path: path.map(({ table, chain, rule }) => ({ table, chain, rule })),
    }));
    const unread = [...notes.doubts].map(([rule, why]) => {
      const at = placeOf(rule.text);
      return { rule: rule.text, ...(at === undefined ? {} : { at }), why };
    });
    const isOpen = ways.some(({ verdict }) => verdict === 'pass');
    return { node: seen.node, packet, assumed, ways, unread, missing: missingFor(seen, family, isOpen) };
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    throw cannotTrace(undefined, error.message, 'Observe the node again: the rules changed while they were read');
  }
}

/** @param isOpen whether no rule that was read decides: then servers, or rules for addresses of the node, may */
function missingFor({ missing }: Observation, family: Family, isOpen: boolean): readonly MissingPart[] {
  const parts = [
    partOf('nft', family),
    partOf('legacy', family),
    'nft-tables',
    ...(isOpen ? ['servers', 'addresses'] : []),
  ];
  return missing.filter(({ part }) => parts.includes(part));
}

function ownSource(destination: string, addresses: readonly string[]): string | undefined {
  const isLoopback = destination.startsWith('127.') || destination === '::1';
  if (isLoopback || addresses.includes(destination)) return destination;
  return addresses.find((one) => !one.startsWith('127.') && one !== '::1' && !one.startsWith('fe80:'));
}
