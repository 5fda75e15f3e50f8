import { type BundleFiles, readPath } from '@sluice/bundle';
import {
  addressOfEndpoint,
  atLocalhost,
  compareText,
  isLoopback,
  parseAddress,
  type Problem,
  Stopped,
} from '@sluice/netfilter';
import { nftOptionsOf } from '../bundle/nft-options.ts';
import { type ExplainedPort, type Explanation, placesIn } from './explanation.ts';
import { type PortFacts, portName } from '../facts/facts.ts';
import { Memory } from '../bundle/memory.ts';
import { factsAt } from '../facts/read.ts';

/** A Service port and the file that declares it. */
interface PortEntry {
  readonly path: string;
  readonly service: string;
  readonly port: PortFacts;
}

const serviceForm = /^([a-z0-9-]+\/[a-z0-9-]+)(?::([a-z0-9-]+))?$/;
const addressForm = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)|([0-9a-fA-F:.]*:[0-9a-fA-F:.]*))$/;
const endpointForm = /^(?:\[([0-9a-fA-F:.]+)\]|([0-9.]+)):([1-9][0-9]{0,4})(?:\/(tcp|udp|sctp))?$/i;

/**
 * Finds a Service by its name or by an address.
 * @param query `shop/web`, `shop/web:http`, `10.96.0.10`, `10.96.0.10:80`, `[fd00::1]:80/tcp`
 * @returns `other-form` for any other text; undefined when no file has it; a problem when a file cannot be read
 */
export function explainService(files: BundleFiles, query: string): Explanation | Problem | 'other-form' | undefined {
  const [, service, port] = serviceForm.exec(query) ?? [];
  const address = service === undefined ? addressOf(query) : undefined;
  if (service === undefined && address === undefined) return 'other-form';
  try {
    return service === undefined ? ofAddress(files, address as AddressQuery) : ofService(files, service, port);
  } catch (error) {
    if (error instanceof Stopped && error.problems[0]) return error.problems[0];
    throw error;
  }
}

interface AddressQuery {
  readonly address: string;
  readonly port?: string;
  readonly protocol?: string;
}

function addressOf(query: string): AddressQuery | undefined {
  const [, six, four, port, protocol] = endpointForm.exec(query) ?? [];
  const [, bracketed, plain, colons] = port === undefined ? (addressForm.exec(query) ?? []) : [];
  const address = parseAddress(six ?? four ?? bracketed ?? plain ?? colons ?? '');
  if (!address) return undefined;
  return {
    address: address.text,
    ...(port === undefined ? {} : { port }),
    ...(protocol === undefined ? {} : { protocol: protocol.toLowerCase() }),
  };
}

function ofService(files: BundleFiles, service: string, name: string | undefined): Explanation | undefined {
  const isItsFile = (path: string): boolean => path.includes(`/services/${service}.`);
  const all = portsIn(files, (path) => isItsFile(path)).filter((entries) => entries.service === service);
  const entries = all.filter(({ port }) => name === undefined || portName(port) === `${service}:${name}`);
  if (entries.length === 0) return undefined;
  const places = [...files].filter(([path]) => isItsFile(path)).toSorted(([a], [b]) => compareText(a, b));
  return {
    service,
    ports: distinct(entries.map(({ port }) => explained(port))),
    places: places.flatMap(([path, text]) => placesIn(path, text, declares(text))),
    meaning: 'its ports, and the lines that declare their chains, virtual servers or frontends',
  };
}

/** Matches lines that declare chains, virtual servers or frontends of a Service. */
function declares(text: string): (line: string) => boolean {
  const [first] = text.split('\n');
  return (line) =>
    (line === first && line.startsWith('# ')) ||
    /^:KUBE-(?:SVC|SVL|EXT|FW)-|^(?:@\S+ )?-A -\S+ |^(?:@\S+ )?add element inet sluice svc[46] /.test(line);
}

function ofAddress(files: BundleFiles, query: AddressQuery): Explanation | undefined {
  const { address, port, protocol } = query;
  const isIt = (text: string): boolean =>
    addressOfEndpoint(text) === address && (port === undefined || text.endsWith(`:${port}`));
  const entries = portsIn(files, (_path, text) => text.includes(address)).filter(
    (one) => protocol === undefined || one.port.protocol === protocol,
  );
  const frontends = entries.filter(({ port: one }) => one.addresses.some(({ text }) => isIt(text)));
  const endpoints = entries.filter(({ port: one }) => one.endpoints.some(({ text }) => isIt(text)));
  const found = frontends.length > 0 ? frontends : endpoints;
  if (found.length === 0) return ofNodePort(files, query);
  const services = [...new Set(found.map(({ service }) => service))];
  const kinds = found.flatMap(({ port: one }) =>
    one.addresses.filter(({ text }) => isIt(text)).map(({ kind }) => kind),
  );
  const paths = [...new Set(found.map(({ path }) => path))];
  return {
    ...(services.length === 1 ? { service: services[0] as string } : { services: namesOf(found) }),
    ports: distinct(found.map((one) => explained(one.port))),
    places: paths.flatMap((path) => placesIn(path, files.get(path) ?? '', (line) => mentions(line, query))),
    meaning: frontends.length > 0 ? `its ${[...new Set(kinds)].join(' and ')} address` : 'one of its endpoints',
  };
}

/** A node port at any other address: whether a node has that one is not asked, but for loopback addresses. */
function ofNodePort(files: BundleFiles, { address, port, protocol }: AddressQuery): Explanation | undefined {
  const isSix = address.includes(':');
  const found = portsIn(files, () => port !== undefined).filter(
    ({ port: one }) =>
      one.addresses.some(({ text }) => text.startsWith('[') === isSix) &&
      one.nodePort === Number(port) &&
      (protocol ?? one.protocol) === one.protocol,
  );
  const [first] = found;
  if (!first) return undefined;
  const parsed = parseAddress(address);
  const there = parsed && isLoopback(parsed) ? found.map((one) => onLoopback(files, one, address)) : [];
  return {
    service: first.service,
    ports: distinct(found.map((one) => explained(one.port))),
    places: [...new Set(found.map(({ path }) => path))].flatMap((path) => {
      const text = files.get(path) ?? '';
      return placesIn(path, text, declares(text));
    }),
    meaning: ['its node port', ...new Set(there)].join('; '),
  };
}

/** What a node of the profile does with a node port at a loopback address. */
function onLoopback(files: BundleFiles, { path, port: { protocol } }: PortEntry, address: string): string {
  const what = readPath(path);
  const profile = what?.kind === 'service' ? what.profile : '';
  const at = `profile ${profile}, ${protocol} on ${address}`;
  if (!path.endsWith('.nft')) return `${at}: ask \`sluice trace --from node\``;
  return `${at}: ${ways[atLocalhost(nftOptionsOf({ files }, profile), address, protocol)]}`;
}

const ways = {
  table: 'served by the table',
  listener: 'served by sluiced while it runs',
  refused: 'rejected by the table',
  left: 'left to programs of the node',
} as const;

const namesOf = (found: readonly PortEntry[]): readonly string[] => [
  ...new Set(found.map(({ port }) => portName(port))),
];

/** Whether a rule or a virtual server matches an address or translates to it. */
function mentions(line: string, { address, port }: AddressQuery): boolean {
  if (line.startsWith('#')) return false;
  const bare = line.replaceAll(/ --comment (?:"[^"]*"|\S+)/g, '');
  const at = bare.split(/[ ,]/).some((word) => {
    const host =
      word.startsWith('[') || /^[0-9.]+:\d+$/.test(word) ? addressOfEndpoint(word) : word.replace(/\/(?:32|128)$/, '');
    return host === address;
  });
  return at && (port === undefined || bare.includes(`:${port}`) || bare.includes(` --dport ${port}`));
}

/** The Service ports in the files that may have the wanted one. */
function portsIn(files: BundleFiles, mayHave: (path: string, text: string) => boolean): readonly PortEntry[] {
  const memory = new Memory();
  return [...files]
    .filter(([path, text]) => readPath(path)?.kind === 'service' && mayHave(path, text))
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([path]) =>
      factsAt({ files, memory }, path).flatMap(({ service, ports }) => ports.map((port) => ({ path, service, port }))),
    );
}

const explained = ({ key, addresses, nodePort, endpoints }: PortFacts): ExplainedPort => ({
  key,
  addresses,
  nodePort,
  endpoints,
});

/** Drops duplicates: most profiles have the same ports. */
function distinct(ports: readonly ExplainedPort[]): readonly ExplainedPort[] {
  return [...new Map(ports.map((port) => [JSON.stringify(port), port])).values()];
}
