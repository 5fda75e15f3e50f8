import { compareText, type Family, printEndpoint, readServerLine } from '@sluice/bundle';
import type { AddressFacts, PortFacts, ServiceFacts } from '../facts.ts';
import { type HeaderNotes, notesOf, type PortNote } from '../header.ts';

/** What stands for the addresses of the machine, so that the line can be read without knowing them. */
const machine = { ipv4: '0.0.0.0', ipv6: '::' } as const satisfies Record<Family, string>;

interface Server {
  readonly address: string;
  readonly port: number;
  readonly protocol: string;
  readonly targets: string[];
}

/**
 * What an `.ipvs` file says of a Service in one family. Servers come from its lines; policies, ranges and where endpoints are
 * from the comment block, as rules of this mode ask sets for them.
 */
export function virtualFacts(service: string, family: Family, text: string): ServiceFacts {
  const lines = text.split('\n');
  const notes = notesOf(lines.filter((line) => line.startsWith('# ')).map((line) => line.slice(2)));
  const servers = serversIn(lines, family);
  const ports = notes.ports
    .filter(({ clusterIP }) => clusterIP.includes(':') === (family === 'ipv6'))
    .map((port) => portFacts(service, port, notes, servers, family));
  return { service, family, ...(notes.type === undefined ? {} : { type: notes.type }), ports };
}

function serversIn(lines: readonly string[], family: Family): readonly Server[] {
  const own = family === 'ipv4' ? machine.ipv4 : `[${machine.ipv6}]`;
  const found = new Map<string, Server>();
  for (const line of lines) {
    if (line === '' || line.startsWith('#')) continue;
    const bare = line.startsWith('@') ? line.slice(line.indexOf(' ') + 1) : line;
    const read = readServerLine(bare.replace('${host.nodePortAddresses}', own));
    if ('error' in read || read.kind === 'timeouts') continue;
    const name = read.kind === 'virtual' ? read.server : read.of;
    if (name.family !== family) continue;
    const key = `${name.address} ${name.port} ${name.protocol}`;
    const server = found.get(key) ?? { ...name, targets: [] };
    found.set(key, server);
    if (read.kind === 'real') server.targets.push(printEndpoint(read.server.address, read.server.port));
  }
  return [...found.values()];
}

function portFacts(
  service: string,
  { name, port, protocol, nodePort }: PortNote,
  notes: HeaderNotes,
  servers: readonly Server[],
  family: Family,
): PortFacts {
  const own = servers.filter(
    (server) =>
      server.protocol === protocol &&
      (server.address === machine[family] ? server.port === nodePort : server.port === port),
  );
  const targets = new Set(own.flatMap((server) => server.targets));
  return {
    key: `${service}${name === '' ? '' : `:${name}`} ${port}/${protocol.toUpperCase()}`,
    protocol,
    addresses: own
      .filter(({ address }) => address !== machine[family])
      .map(({ address }) => ({ kind: kindOf(address, notes), text: printEndpoint(address, port) }))
      .toSorted((a, b) => compareText(a.text, b.text)),
    nodePort,
    endpoints: [...targets].toSorted(compareText).map((text) => {
      const note = notes.endpoints.find((one) => one.text === text);
      return {
        text,
        ...(note?.node === undefined ? {} : { node: note.node }),
        ...(note?.zone === undefined ? {} : { zone: note.zone }),
      };
    }),
    internalPolicy: notes.internalPolicy,
    externalPolicy: notes.externalPolicy,
    ...(notes.affinitySeconds === undefined ? {} : { affinity: [notes.affinitySeconds] }),
    sourceRanges: notes.sourceRanges.filter((range) => range.includes(':') === (family === 'ipv6')),
    healthCheckPort: notes.healthCheckPort,
  };
}

function kindOf(address: string, notes: HeaderNotes): AddressFacts['kind'] {
  if (notes.externalAddresses.includes(address)) return 'external';
  return notes.loadBalancerAddresses.includes(address) ? 'load-balancer' : 'cluster';
}
