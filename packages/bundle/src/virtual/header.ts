import type { Family, TrafficPolicy, TransportProtocol } from '@sluice/netfilter';

/** An endpoint in the comment block. */
export interface HeaderNote {
  /** The name of the port; empty for a port without one. */
  readonly port: string;
  readonly text: string;
  readonly node?: string;
  readonly zone?: string;
  readonly ready: boolean;
  readonly serving: boolean;
  readonly terminating: boolean;
  readonly weight: number;
  /** Empty: no hints. */
  readonly hintZones: readonly string[];
  readonly hintNodes: readonly string[];
}

/** A port in the comment block. */
export interface PortNote {
  readonly name: string;
  readonly clusterIP: string;
  readonly port: number;
  readonly protocol: TransportProtocol;
  /** 0: none. */
  readonly nodePort: number;
}

/** The content of the comment block above the rules of a Service, which `compile/header.ts` writes. */
export interface HeaderNotes {
  readonly type?: string;
  readonly ports: readonly PortNote[];
  readonly externalAddresses: readonly string[];
  readonly loadBalancerAddresses: readonly string[];
  readonly sourceRanges: readonly string[];
  readonly internalPolicy: TrafficPolicy;
  readonly externalPolicy: TrafficPolicy;
  readonly healthCheckPort: number;
  readonly affinitySeconds?: number;
  /** Modes ipvs and nftables: the scheduler that the Service sets itself, as the mode names it. */
  readonly scheduler?: string;
  readonly endpoints: readonly HeaderNote[];
}

const portForm = /^(\S+): (?:(\S+) )?(\d+)\/(TCP|UDP|SCTP)(?: node port (\d+))?$/;
const endpointForm = /^endpoint (?:([a-z0-9-]+) )?(\[[0-9a-f:]+\]:\d+|[0-9.]+:\d+)(?: (.*))?$/;

/** The comment block above the lines of an `.ipset`, `.ipvs` or `.nft` file, without `# `. */
export function commentBlockOf(text: string): readonly string[] {
  const header: string[] = [];
  for (let start = 0; text.startsWith('#', start); ) {
    const end = text.indexOf('\n', start);
    // A block that nothing follows is none.
    if (end < 0) return [];
    header.push(text.slice(start + (text.startsWith('# ', start) ? 2 : 1), end));
    start = end + 1;
  }
  return header;
}

/** Reads a comment block. Lines of another form are ignored. */
export function notesOf(header: readonly string[]): HeaderNotes {
  // Most lines are about endpoints.
  const others = header.filter((line) => !line.startsWith(endpointMark));
  const after = (prefix: string): readonly string[] =>
    others.flatMap((line) => (line.startsWith(`${prefix} `) ? [line.slice(prefix.length + 1)] : []));
  const type = /^\S+\/\S+ (ClusterIP|NodePort|LoadBalancer)$/.exec(header[0] ?? '')?.[1];
  const seconds = /^ClientIP (\d+) s$/.exec(after('session affinity')[0] ?? '')?.[1];
  const scheduler = after('scheduler')[0];
  return {
    ...(type === undefined ? {} : { type }),
    ports: others.flatMap(portOf),
    externalAddresses: after('external address'),
    loadBalancerAddresses: after('load-balancer address'),
    sourceRanges: after('load-balancer source range'),
    internalPolicy: others.includes('internalTrafficPolicy Local') ? 'Local' : 'Cluster',
    externalPolicy: others.includes('externalTrafficPolicy Local') ? 'Local' : 'Cluster',
    healthCheckPort: Number(after('health-check node port')[0] ?? 0),
    ...(seconds === undefined ? {} : { affinitySeconds: Number(seconds) }),
    ...(scheduler === undefined ? {} : { scheduler }),
    endpoints: header.flatMap(endpointOf),
  };
}

function portOf(line: string): PortNote | readonly [] {
  const match = portForm.exec(line);
  if (!match) return [];
  const [, clusterIP = '', name = '', port = '', protocol = '', nodePort = '0'] = match;
  return {
    name,
    clusterIP,
    port: Number(port),
    protocol: protocol.toLowerCase() as TransportProtocol,
    nodePort: Number(nodePort),
  };
}

const endpointMark = 'endpoint ';

const states = /(?:^| )(not ready)?(?:(?:^| )(terminating)(, not serving)?)?$/;

/** Optional clauses at the end of an endpoint's line. */
const clausesForm = /(?:, weight (\d+))?(?:, for zones (\S+?))?(?:, for nodes (\S+))?$/;

function endpointOf(whole: string): HeaderNote | readonly [] {
  if (!whole.startsWith(endpointMark)) return [];
  // Nearly no line has clauses: the expression would look for one from each of its letters.
  const clauses = whole.includes(', ') ? clausesForm.exec(whole) : undefined;
  const line = whole.slice(0, clauses?.index);
  const match = endpointForm.exec(line);
  if (!match) return [];
  const [, weight = '1', zones = '', nodes = ''] = clauses ?? [];
  const [, port = '', text = '', rest = ''] = match;
  const state = /ready|terminating/.test(rest) ? states.exec(rest) : undefined;
  const [node, zone] = rest
    .slice(0, state?.index ?? rest.length)
    .split(' ')
    .filter(Boolean);
  const terminating = state?.[2] !== undefined;
  return {
    port,
    text,
    ...(node === undefined || node === '-' ? {} : { node }),
    ...(zone === undefined ? {} : { zone }),
    ready: state?.[1] === undefined,
    // The block says `not serving` of terminating endpoints only.
    serving: state?.[3] === undefined,
    terminating,
    weight: Number(weight),
    hintZones: namesIn(zones),
    hintNodes: namesIn(nodes),
  };
}

const noNames: readonly string[] = [];
const namesIn = (list: string): readonly string[] => (list === '' ? noNames : list.split(',').filter(Boolean));

/** One family's part of a comment block for both families, which files of modes ipvs and nftables have. */
export function notesFor(family: Family, notes: HeaderNotes): HeaderNotes {
  const isOwn = (text: string): boolean => text.includes(':') === (family === 'ipv6');
  return {
    ...notes,
    ports: notes.ports.filter(({ clusterIP }) => isOwn(clusterIP)),
    externalAddresses: notes.externalAddresses.filter(isOwn),
    loadBalancerAddresses: notes.loadBalancerAddresses.filter(isOwn),
    sourceRanges: notes.sourceRanges.filter(isOwn),
    endpoints: notes.endpoints.filter(({ text }) => text.startsWith('[') === (family === 'ipv6')),
  };
}

/** The node and zone of an endpoint, as far as a comment block names them. @param text `10.244.1.5:8080` */
export function placeOfEndpoint(text: string, { endpoints }: HeaderNotes): Pick<HeaderNote, 'node' | 'zone'> {
  const note = endpoints.find((one) => one.text === text);
  return {
    ...(note?.node === undefined ? {} : { node: note.node }),
    ...(note?.zone === undefined ? {} : { zone: note.zone }),
  };
}
