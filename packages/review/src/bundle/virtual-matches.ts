import { type Family, findSet, lineFamily, type TransportProtocol, type VirtualTool } from '@sluice/netfilter';
import { virtualLines } from '@sluice/bundle';
import { readEntry } from './lines.ts';
import { type FileMatches, type FoundMatches, newMatches } from './matches.ts';

/**
 * The packets that the lines of a Service's `.ipset` or `.ipvs` file can match, read from the text without resolving it. No line
 * matches all packets: each entry and each virtual server names an address or a port.
 */
export function virtualMatches(tool: VirtualTool, text: string, family: Family): FileMatches {
  const found = newMatches();
  for (const line of virtualLines(text)) {
    if (lineFamily(tool, line) !== family) continue;
    if (tool === 'ipvs') addServer(line, found);
    else addEntry(line, found);
  }
  return found;
}

const serverForm = /^-[Aa] (-t|-u|--sctp-service) (\S+):(\d+) (?:-r (\S+):(\d+) )?/;
const protocols: Readonly<Record<string, TransportProtocol>> = { '-t': 'tcp', '-u': 'udp', '--sctp-service': 'sctp' };
const everyProtocol = ['tcp', 'udp', 'sctp'] as const satisfies readonly TransportProtocol[];

function addServer(text: string, { exact, ports, targets }: FoundMatches): void {
  const [, option = '', host = '', port = '', target, targetPort] = serverForm.exec(text) ?? [];
  const protocol = protocols[option];
  if (protocol === undefined) return;
  if (target !== undefined) targets.add(`${protocol} ${bare(target)} ${targetPort}`).add(`${protocol} ${targetPort}`);
  else if (host.includes('${')) ports.add(`${protocol} ${port}`);
  else exact.add(`${protocol} ${bare(host)} ${port}`);
}

function addEntry(text: string, { exact, ports, bound, inner }: FoundMatches): void {
  const [, name = '', entry = ''] = text.split(' ');
  const set = findSet(name);
  if (!set) return;
  if (set.type === 'hash:ip') bound.add(entry);
  else if (set.type === 'bitmap:port') {
    for (const protocol of protocolsOf(set.key)) ports.add(`${protocol} ${entry}`);
  } else {
    const { first, protocol, port, source } = readEntry(entry);
    const key = `${protocol} ${first} ${port}`;
    // Entries for hairpin traffic end with the endpoint's own address; only packets from virtual servers are looked up there.
    if (set.key === 'KUBE-LOOP-BACK') inner.add(key);
    if (first.includes('${')) ports.add(`${protocol} ${port}`);
    else if (set.key !== 'KUBE-LOOP-BACK' || source !== first) exact.add(key);
  }
}

/** The rule for health checks matches a port of every protocol. */
function protocolsOf(set: string): readonly TransportProtocol[] {
  const named = everyProtocol.find((protocol) => set.endsWith(`-${protocol.toUpperCase()}`));
  return named === undefined ? everyProtocol : [named];
}

const bare = (host: string): string => host.replaceAll(/[[\]]/g, '');
