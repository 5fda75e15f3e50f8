import { document } from '@sluice/cli';
import { type Packet, printEndpoint, terminalText } from '@sluice/netfilter';
import type { NodeTrace, TracedPath } from '../trace/trace-node.ts';
import type { LiveTrace } from '../trace/trace-live.ts';
import { percentText } from '../report/words.ts';

/** Prints the paths of a packet: one block per outcome, rule by rule with its Service. */
export function printTrace(traced: NodeTrace, format: 'text' | 'json'): string {
  if (format === 'json') return document('Trace', traced);
  const { packet, node, profile, ways, layout, assumed } = traced;
  const how = `profile ${profile}${layout === 'tree' ? ', layout tree' : ''}`;
  return [
    headOf(packet, node, how),
    ...assumed.map((sentence) => `assumed: ${sentence}\n`),
    ...ways.map(printWay),
  ].join('');
}

/** Prints the paths through an observed node, then the rules that were not understood. */
export function printLiveTrace(traced: LiveTrace, format: 'text' | 'json'): string {
  if (format === 'json') return document('LiveTrace', traced);
  const { packet, node, ways, assumed, unread, missing } = traced;
  const gaps = unread.map(
    ({ rule, at, why }) => `\n${terminalText(`not understood: ${at === undefined ? '' : `${at}: `}${rule}: ${why}`)}\n`,
  );
  const absent = missing.map(
    ({ part, why }) => `\nnot read: ${part}, which may decide otherwise: ${terminalText(why)}\n`,
  );
  const premises = assumed.map((sentence) => `assumed: ${sentence}\n`);
  return [headOf(packet, node, 'observed'), ...premises, ...ways.map(printWay), ...gaps, ...absent].join('');
}

/** `10.244.1.7 → 10.96.0.10:80/tcp on node-a (profile default, sent by the node)` */
function headOf(packet: Packet, node: string, how: string): string {
  const by = packet.in === undefined ? 'sent by the node' : `in by ${packet.in}`;
  return `${packet.source} → ${printEndpoint(packet.destination, packet.port)}/${packet.protocol} on ${node} (${how}, ${by})\n`;
}

const verdicts = {
  accept: 'accepted unchanged',
  pass: 'No Service matches; the packet continues to its original destination',
  reject: 'REJECT',
  drop: 'DROP',
} as const;

function printWay({ verdict, to, masquerade, probability, path }: TracedPath): string {
  const end = verdict === 'dnat' ? `to ${to}` : verdicts[verdict];
  const width = Math.max(0, ...path.map(({ service }) => (service ?? '-').length));
  const lines = path.map(
    ({ table, chain, rule, service }) =>
      `    ${(service ?? '-').padEnd(width)}  ${table.padEnd(6)}  ${table === 'nftables' ? `${terminalText(chain)}: ` : ''}${terminalText(rule)}\n`,
  );
  return `\n${percentText(probability)} ${end}${masquerade ? ', masqueraded' : ''}\n${lines.join('')}`;
}
