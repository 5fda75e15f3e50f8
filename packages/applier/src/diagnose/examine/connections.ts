import { readFileSync } from 'node:fs';
import { canonicalAddress, type Family, printEndpoint } from '@sluice/netfilter';
import { LineSplitter } from '../../message.ts';
import type { ConntrackFacts, EndpointConnections } from '../doctor/facts.ts';
import type { Run } from '../../kernel/command.ts';
import { bounds } from './bounds.ts';
import { printedBy } from './printed.ts';

type Counts = { -readonly [K in keyof EndpointConnections]: EndpointConnections[K] };

/** How full the table is. @throws Error when it cannot be read */
export function readFill(): Pick<ConntrackFacts, 'count' | 'max'> {
  const read = (name: string): number => Number(readFileSync(`/proc/sys/net/netfilter/${name}`, 'utf8'));
  return { count: read('nf_conntrack_count'), max: read('nf_conntrack_max') };
}

/**
 * Counts connections by the endpoint that answers, for some endpoints: `10.244.1.5:8080 tcp`. Refused ones are not there: the kernel forgets
 * a connection whose first reply is a reset (`nf_conntrack_tcp_packet`). Lines are read as they come, and none is kept.
 * @throws Error when conntrack fails
 */
export async function countConnections(
  endpoints: ReadonlySet<string>,
  own: ReadonlySet<string>,
  run: Run,
): Promise<Pick<ConntrackFacts, 'endpoints' | 'untranslated'>> {
  const found = new Map<string, Counts>();
  const untranslated = new Set<string>();
  for (const family of ['ipv4', 'ipv6'] as const) {
    let counted = 0;
    const lines = new LineSplitter((line) => {
      if (counted++ >= bounds.connections) return;
      count(line, family, endpoints, own, found);
      const asked = untranslatedIn(line, family);
      if (asked !== undefined && untranslated.size < bounds.untranslated) untranslated.add(asked);
    });
    const onOutput = (part: string): void => lines.take(part);
    await printedBy('conntrack', ['-L', '-f', family], run, { onOutput });
    lines.end();
  }
  return { endpoints: found, untranslated };
}

const connecting =
  /^tcp .* SYN_SENT src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+) (?:packets=\d+ bytes=\d+ )?\[UNREPLIED\] src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+)/;

/** Where a TCP connection wants to go that has no reply and is not translated: each retry of its client keeps it so. */
function untranslatedIn(line: string, family: Family): string | undefined {
  const [, , to = '', , port, from, , fromPort] = connecting.exec(line) ?? [];
  if (port === undefined || to !== from || port !== fromPort) return undefined;
  return printEndpoint(family === 'ipv6' ? (canonicalAddress(to) ?? to) : to, Number(port));
}

/** `tcp 6 117 SYN_SENT src=… dst=… sport=… dport=… [UNREPLIED] src=… dst=… sport=… dport=…`: the second group is the reply. */
function count(
  line: string,
  family: Family,
  endpoints: ReadonlySet<string>,
  own: ReadonlySet<string>,
  found: Map<string, Counts>,
): void {
  const protocol = line.slice(0, line.indexOf(' '));
  const reply = line.lastIndexOf(' src=');
  const [, source = '', destination = '', port = ''] =
    /^ src=(\S+) dst=(\S+) sport=(\d+)/.exec(line.slice(reply)) ?? [];
  const name = family === 'ipv6' ? (canonicalAddress(source) ?? source) : source;
  const key = `${printEndpoint(name, Number(port))} ${protocol}`;
  if (port === '' || !endpoints.has(key)) return;
  const counts = found.get(key) ?? { answered: 0, silent: 0, masqueraded: 0 };
  found.set(key, counts);
  if (line.includes('[UNREPLIED]')) counts.silent++;
  else counts.answered++;
  const [, client = ''] = / src=(\S+)/.exec(line) ?? [];
  if (destination !== client && own.has(canonicalAddress(destination) ?? destination)) counts.masqueraded++;
}
