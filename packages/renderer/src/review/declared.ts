import { type Family, isInCidr, parseAddress, parseCidr, type RuleFile, valueOf } from '@sluice/bundle';
import type { Destination, Source } from './flow.ts';
import { type HeaderNote, type HeaderNotes, notesOf, type PortNote } from './header.ts';
import { factOf, type NodeOf } from './program.ts';

/** What the comment block of a Service declares, ready to be asked. */
export interface Declared {
  readonly service: string;
  readonly notes: HeaderNotes;
  /** The rules choose among endpoints by node or zone: the Service has hints, which the comment block does not show. */
  readonly hinted: boolean;
}

/** What a destination is to its Service. */
export type Role = 'cluster' | 'external' | 'load-balancer' | 'node-port' | 'health-check';

/** One declared destination. */
export interface Claim {
  readonly declared: Declared;
  readonly role: Role;
  /** Absent for health checks, which the whole Service has. */
  readonly port?: PortNote;
  readonly destination: Destination;
}

/** What must become of connections from one source. */
export type Expected =
  | { readonly kind: 'accept' | 'pass' | 'reject' | 'drop' }
  /** Equal shares of all of them, or of some where hints choose. */
  | {
      readonly kind: 'endpoints';
      readonly all: readonly string[];
      readonly some: boolean;
      readonly masquerade: boolean;
    };

export function declaredIn(service: string, file: RuleFile): Declared {
  const hinted = file.sections.some(({ rules }) =>
    rules.some(({ guard, text }) => guard && guard.kind !== 'local' && text.startsWith('-A KUBE-SVC-')),
  );
  return { service, notes: notesOf(file.header), hinted };
}

/** Every destination that a Service declares. */
export function claimsOf(declared: Declared): readonly Claim[] {
  const { notes, service } = declared;
  const services = [service];
  const claims = notes.ports.flatMap((port): readonly Claim[] => {
    const at = (role: Role, address: string): Claim => ({
      declared,
      role,
      port,
      destination: { kind: 'address', address, port: port.port, protocol: port.protocol, services },
    });
    return [
      at('cluster', port.clusterIP),
      ...notes.externalAddresses.map((address) => at('external', address)),
      ...notes.loadBalancerAddresses.map((address) => at('load-balancer', address)),
      ...(port.nodePort === 0 ? [] : onNode(declared, 'node-port', port.nodePort, port)),
    ];
  });
  return notes.healthCheckPort === 0
    ? claims
    : [...claims, ...onNode(declared, 'health-check', notes.healthCheckPort, undefined)];
}

function onNode(declared: Declared, role: Role, number: number, port: PortNote | undefined): readonly Claim[] {
  const protocol = port?.protocol ?? 'tcp';
  const services = [declared.service];
  return (['node-port', 'localhost'] as const).map((kind) => ({
    declared,
    role,
    ...(port === undefined ? {} : { port }),
    destination: { kind, address: '', port: number, protocol, services },
  }));
}

/** How a profile treats traffic, as far as it is the same for all its Services. */
export interface Manners {
  /** The match for traffic of others than the node's pods, with its variable; `''`: everybody is masqueraded. */
  readonly notLocal: string;
  /** On which of the node's own addresses node ports are open. */
  readonly nodePorts: { readonly address: (address: string) => boolean; readonly localhost: boolean };
}

/** What a node must do with connections to a claimed destination. kube-proxy's `syncProxyRules` and `CategorizeEndpoints`. */
export function expectedOf(claim: Claim, node: NodeOf, family: Family, source: Source, manners: Manners): Expected {
  const { declared, role, port, destination } = claim;
  if (role === 'health-check') return { kind: 'accept' };
  const { notes } = declared;
  const endpoints = notes.endpoints.filter((endpoint) => endpoint.port === port?.name);
  if (usable(endpoints).length === 0) return { kind: 'reject' };
  const isPods = isLocalPod(node, family, source, manners);
  const cluster = (masquerade: boolean): Expected => {
    const some = declared.hinted && endpoints.some(({ ready }) => ready);
    return { kind: 'endpoints', all: textsOf(usable(endpoints)), some, masquerade };
  };
  const local = (masquerade: boolean): Expected => {
    const own = usable(endpoints.filter((endpoint) => endpoint.node === node.name));
    return own.length === 0 ? { kind: 'drop' } : { kind: 'endpoints', all: textsOf(own), some: false, masquerade };
  };
  if (role === 'cluster') return notes.internalPolicy === 'Local' ? local(!isPods) : cluster(!isPods);
  if (role === 'load-balancer' && !isAllowed(notes, node, family, source)) return { kind: 'drop' };
  const outcome =
    notes.externalPolicy === 'Local' ? externalLocal(source, isPods, manners, cluster, local) : cluster(true);
  const closed = role === 'node-port' && !isOpen(node, family, destination, manners);
  // What turns traffic away asks only whether the address is the node's own.
  return closed && outcome.kind === 'endpoints' ? { kind: 'pass' } : outcome;
}

/** With policy Local only the node and its pods go on to other nodes; where the node has no endpoint, everybody else is dropped. */
function externalLocal(
  source: Source,
  isPods: boolean,
  manners: Manners,
  cluster: (masquerade: boolean) => Expected,
  local: (masquerade: boolean) => Expected,
): Expected {
  const knowsPods = manners.notLocal !== '';
  if (knowsPods && isPods) return cluster(false);
  return source.class === 'node' ? cluster(true) : local(false);
}

const textsOf = (endpoints: readonly HeaderNote[]): readonly string[] => endpoints.map(({ text }) => text);

/** The ready endpoints or, where there are none, those that end but still serve (KEP-1669). */
function usable(endpoints: readonly HeaderNote[]): readonly HeaderNote[] {
  const ready = endpoints.filter((endpoint) => endpoint.ready);
  return ready.length > 0 ? ready : endpoints.filter(({ terminating, serving }) => terminating && serving);
}

/** Whether the profile's detector takes a source for a pod of the node. Without a value for it nobody is told from anybody. */
function isLocalPod(node: NodeOf, family: Family, source: Source, { notLocal }: Manners): boolean {
  if (notLocal === '') return false;
  const [, option, owner, name, tail] = /^! -([si]) \$\{(node|profile)\.([A-Za-z]+)\}(\+?)$/.exec(notLocal) ?? [];
  const values = owner === 'node' ? node.file.values : node.profile.values;
  const value = valueOf(values, family, name ?? '');
  if (typeof value !== 'string') return true;
  if (option === 'i') return tail === '+' ? (source.in ?? '').startsWith(value) : source.in === value;
  return contains(value, source.address);
}

function isAllowed(notes: HeaderNotes, node: NodeOf, family: Family, source: Source): boolean {
  const ranges = notes.sourceRanges;
  if (ranges.length === 0 || ranges.some((range) => contains(range, source.address))) return true;
  // A node whose address is in a range talks to the load balancer's address from that same address.
  const own = factOf(node, family, 'address');
  const nodeInRange = own !== undefined && ranges.some((range) => contains(range, own));
  return nodeInRange && notes.loadBalancerAddresses.includes(source.address);
}

function isOpen(node: NodeOf, family: Family, destination: Destination, { nodePorts }: Manners): boolean {
  if (destination.kind === 'localhost') return nodePorts.localhost;
  const address = factOf(node, family, 'address');
  return address !== undefined && nodePorts.address(address);
}

function contains(network: string, text: string): boolean {
  const [cidr, address] = [parseCidr(network), parseAddress(text)];
  return cidr !== undefined && address !== undefined && isInCidr(address, cidr);
}
