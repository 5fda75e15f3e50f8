import { readServerLine } from './read-ipvs.ts';
import { type RealServer, type VirtualServer, virtualKey } from './values.ts';

/** The virtual servers of a kernel. */
interface ReadServers {
  /** By `virtualKey`. */
  readonly servers: ReadonlyMap<string, VirtualServer>;
  /** Keys of those that a bundle cannot have: with a firewall mark, direct routing, another mask. */
  readonly foreign: ReadonlySet<string>;
}

/**
 * Reads the output of `ipvsadm -S -n`, which omits a default: the whole-address mask of persistence.
 * @param lines each virtual server before its real ones
 */
export function readServers(lines: readonly string[]): ReadServers {
  const servers = new Map<string, Omit<VirtualServer, 'real'> & { readonly real: Map<string, RealServer> }>();
  const foreign = new Set<string>();
  for (const line of lines) {
    const words = withMask(line.trimEnd());
    const read = readServerLine(words);
    if (!('error' in read) && read.kind === 'virtual') {
      servers.set(virtualKey(read.server), { ...read.server, real: new Map() });
    } else if (!('error' in read) && read.kind === 'real') {
      servers.get(virtualKey(read.of))?.real.set(words.split(' ')[4] ?? '', read.server);
    } else {
      const key = keyOf(words);
      if (key === undefined) continue;
      foreign.add(key);
      servers.delete(key);
    }
  }
  for (const key of foreign) servers.delete(key);
  return { servers, foreign };
}

/** `-M 128` after the persistence of an IPv6 server, where it is not printed. */
function withMask(line: string): string {
  if (!line.startsWith('-A ') || !line.includes('[') || line.includes(' -M ')) return line;
  return line.replace(/ -p (\d+)/, ' -p $1 -M 128');
}

const protocols = { '-t': 'tcp', '-u': 'udp', '--sctp-service': 'sctp' } as const;

/** The key of a line outside of the grammar; undefined for firewall marks, which clash with nothing. */
function keyOf(line: string): string | undefined {
  const [, option = '', name = ''] = line.split(' ');
  const protocol = Object.hasOwn(protocols, option) ? protocols[option as keyof typeof protocols] : undefined;
  return protocol && name !== '' ? `${name}/${protocol.toUpperCase()}` : undefined;
}
