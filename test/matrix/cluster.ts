import { isIPv6 } from 'node:net';
import {
  compareText,
  type DescribedFrontend,
  destinationOf,
  type FamilyProgram,
  planeOf,
  type Services,
  trace,
  type TransportProtocol,
} from '@sluice/netfilter';
import { stringify } from 'yaml';
import { readConfig } from '../../packages/renderer/src/load/config/config.ts';
import { load } from '../../packages/renderer/src/load/load.ts';
import type { Json, JsonObject } from '../../packages/renderer/src/render/model/kube.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { programsOfNode } from '../netns/traffic-nodes.ts';
import type { Column } from './columns.ts';

/** Changes of the input: mappings are merged, all else is replaced, and null removes a field. */
export interface Input {
  readonly service?: JsonObject;
  readonly slice?: JsonObject;
  readonly proxy?: JsonObject;
  /** The first profiles of `sluice.yaml`; the last one, of all other nodes, is that of the KubeProxyConfiguration. */
  readonly profiles?: readonly JsonObject[];
  /** Further objects. */
  readonly more?: readonly JsonObject[];
}

const endpointAddress = { a: '10.244.1.5', b: '10.244.2.5', c: '10.244.2.6' } as const;

/**
 * A cluster of two nodes in two zones with one Service of two pods, `a` on node-1 and `b` on node-2. A row of the table changes a field of
 * its objects.
 */
const cluster = {
  service: {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web', namespace: 'shop' },
    spec: {
      type: 'ClusterIP',
      clusterIP: '10.96.0.10',
      selector: { app: 'web' },
      ports: [{ name: 'http', port: 80, targetPort: 8080 }],
    },
  },
  slice: {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'web-1', namespace: 'shop', labels: { 'kubernetes.io/service-name': 'web' } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080 }],
    endpoints: [endpoint('a'), endpoint('b')],
  },
  proxy: {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    clusterCIDR: '10.244.0.0/16,fd00:10:244::/48',
  },
} as const satisfies Record<string, JsonObject>;

/** The addresses of the machines that packets come from; a pod of each node, and two machines elsewhere. */
const senders = {
  client: ['10.244.1.9', 'fd00:10:244:1::9'],
  'client of node-2': ['10.244.2.9', 'fd00:10:244:2::9'],
  'node-1': ['192.0.2.11', 'fd00:192::11'],
  a: ['10.244.1.5', 'fd00:10:244:1::5'],
  outside: ['198.51.100.10', '2001:db8::10'],
  stranger: ['203.0.113.200', '2001:db8:1::200'],
} as const satisfies Readonly<Record<string, readonly [string, string]>>;

export type Sender = keyof typeof senders;

/** An endpoint of a slice; `a` is on node-1, the others are on node-2. */
export function endpoint(name: keyof typeof endpointAddress, more: JsonObject = {}): JsonObject {
  const nodeName = name === 'a' ? 'node-1' : 'node-2';
  return { addresses: [endpointAddress[name]], nodeName, conditions: { ready: true }, ...more };
}

const node = (number: 1 | 2, zone: string): JsonObject => ({
  apiVersion: 'v1',
  kind: 'Node',
  metadata: { name: `node-${number}`, labels: { 'topology.kubernetes.io/zone': zone } },
  spec: { podCIDRs: [`10.244.${number}.0/24`, `fd00:10:244:${number}::/64`] },
  status: {
    addresses: [
      { type: 'InternalIP', address: `192.0.2.1${number}` },
      { type: 'InternalIP', address: `fd00:192::1${number}` },
    ],
    capacity: { cpu: '4' },
  },
});

function merged(base: Json, change: Json | undefined): Json {
  if (change === undefined) return base;
  if (!isMapping(base) || !isMapping(change)) return change;
  const entries = Object.entries(change).map(([key, value]) => [key, merged(base[key] ?? null, value)] as const);
  return Object.fromEntries(
    Object.entries({ ...base, ...Object.fromEntries(entries) }).filter(([, one]) => one !== null),
  );
}

const isMapping = (value: Json): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The bundle of the cluster in a mode. @throws Error with the problems, if it cannot be rendered */
function bundleOf(inputs: readonly Input[], { mode, kubeProxyVersion }: Column): ReadonlyMap<string, string> {
  const objectOf = (part: 'service' | 'slice' | 'proxy'): Json =>
    inputs.reduce<Json>(
      (json, input) => merged(json, input[part]),
      part === 'proxy' ? { mode, ...cluster.proxy } : cluster[part],
    );
  const more = inputs.flatMap((input) => input.more ?? []);
  const documents = [
    node(1, 'east'),
    node(2, 'west'),
    objectOf('service'),
    objectOf('slice'),
    objectOf('proxy'),
    ...more,
  ];
  const loaded = load([{ file: 'cluster.yaml', text: documents.map((one) => stringify(one)).join('---\n') }]);
  const profiles = inputs.flatMap((input) => input.profiles ?? []);
  const head = { apiVersion: 'sluice.dev/v1alpha1', kind: 'SluiceConfig', clusterName: 'matrix' };
  const sluice = stringify({
    ...head,
    profiles: [...profiles, { name: 'default' }].map((profile) => ({
      ...profile,
      ...(kubeProxyVersion === undefined ? {} : { kubeProxyVersion }),
    })),
  });
  const { config, problems } = readConfig({
    kubeProxy: loaded.kubeProxy,
    sluice: { file: 'sluice.yaml', text: sluice },
  });
  const input = { base: [], change: loaded.objects, allocations: [], allocate: true, snapshot: true, strict: false };
  const rendered = render({ ...input, config });
  const errors = [...loaded.problems, ...problems, ...rendered.problems].filter(({ level }) => level === 'error');
  if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join('\n'));
  return rendered.files;
}

/** A connection: who opens it, and to which frontend, `10.96.0.10:80/tcp`. It meets node-1, that of a client its own node. */
export interface Connection {
  readonly from: Sender;
  readonly to: string;
  /** The endpoint that session affinity has for the client. */
  readonly remembers?: 'a' | 'b';
}

/**
 * What is asked about a cluster. Packets show most; what they show with time, a node's settings and the view of its Services tell: seconds
 * of session affinity of a frontend, its scheduler, its policy and endpoints for packets from outside, how many node ports are open, the time-outs of mode ipvs, the mark for masquerading, a
 * sysctl.
 */
export type Question =
  | Connection
  | { readonly seconds: string }
  | { readonly scheduler: string }
  | { readonly open: 'node ports' }
  | { readonly ipvs: 'timeouts' }
  | { readonly mark: 'masquerade' }
  | { readonly reached: string }
  | { readonly sysctl: string };

/** Answers a question about the cluster in a column: `a | b`, `masquerade a`, `drop`, `reject`, `accept` or `pass` for a connection. */
export function answersOf(inputs: readonly Input[], column: Column): (question: Question) => string {
  const files = bundleOf(inputs, column);
  return (question) => {
    if ('from' in question) return endOf(files, column, question);
    if ('sysctl' in question) return sysctlOf(files, question.sysctl);
    const { ipvs, nft, ...families } = programsOfNode(files, 'node-1', column.layout);
    const state = { families, ...(ipvs ? { ipvs: ipvs(addressesOf['node-1']) } : {}), ...(nft ? { nft } : {}) };
    if ('mark' in question) return markOf(Object.values(families));
    if ('ipvs' in question) return Object.values(state.ipvs?.timeouts ?? {}).join(' ') || 'none';
    const services = planeOf(state).read(state);
    if ('reached' in question) return reachedOf(services, question.reached);
    const frontends = services.describe('ipv4');
    const at = (text: string): readonly DescribedFrontend[] =>
      frontends.filter(({ address, port, protocol }) => `${address}:${port}/${protocol}` === text);
    if ('seconds' in question)
      return [...new Set(at(question.seconds).flatMap(({ affinitySeconds }) => affinitySeconds))].join();
    if ('scheduler' in question)
      return at(question.scheduler)
        .map(({ scheduler }) => scheduler ?? 'random')
        .join();
    return String(frontends.filter((one) => isNodePort(one)).length);
  };
}

function sysctlOf(files: ReadonlyMap<string, string>, key: string): string {
  const lines = [...files].flatMap(([path, text]) => (path.endsWith('/sysctl.conf') ? text.split('\n') : []));
  const value = lines.find((line) => line.startsWith(`${key} = `))?.slice(`${key} = `.length) ?? 'as it was';
  // A value that follows from the number of cores is that of each node.
  return value === '${node.conntrackMax}'
    ? (/conntrackMax: (\d+)/.exec(files.get('nodes/node-1/node.yaml') ?? '')?.[1] ?? '')
    : value;
}

/** `0x4000`, as the rules that mark packets set it. */
function markOf(programs: readonly FamilyProgram[]): string {
  const rules = programs.flatMap(({ nat }) => [...nat.chains.values()].flat());
  return (
    [...new Set(rules.flatMap((rule) => / --(?:or-mark|set-xmark) (0x[0-9a-f]+)/.exec(rule)?.[1] ?? []))].join() ||
    'none'
  );
}

const addressesOf = { 'node-1': ['192.0.2.11', 'fd00:192::11'], 'node-2': ['192.0.2.12', 'fd00:192::12'] } as const;
/** In mode ipvs node ports are virtual servers at the addresses of the node. */
const isNodePort = ({ address, kind }: DescribedFrontend): boolean =>
  kind !== 'health-check' && (address === undefined || address === addressesOf['node-1'][0]);

/** `Local 1` of `203.0.113.9:80/tcp`. */
function reachedOf(services: Services, to: string): string {
  const [, address = '', port, protocol] = destinationForm.exec(to) ?? [];
  const at = services.at(address).filter((one) => one.port === Number(port) && one.protocol === protocol);
  return at.map(({ policy, endpoints }) => `${policy} ${endpoints}`).join() || 'no frontend';
}

const destinationForm = /^\[?([^\]]+?)\]?:(\d+)\/(tcp|udp|sctp)$/;

function endOf(files: ReadonlyMap<string, string>, { layout }: Column, { from, to, remembers }: Connection): string {
  const at = from === 'client of node-2' ? 'node-2' : 'node-1';
  const [, destination = '', port, protocol] = destinationForm.exec(to) ?? [];
  const family = isIPv6(destination) ? 'ipv6' : 'ipv4';
  const { ipvs, nft, ...programs } = programsOfNode(files, at, layout);
  const program = programs[family];
  if (!program) return 'no rules';
  const virtual = ipvs?.(addressesOf[at]);
  // The kernel takes for the source of a node's own packets the address itself where kube-ipvs0 has it.
  const isOwn = from === 'node-1' && virtual?.addresses[family].includes(destination) === true;
  const source = isOwn ? destination : senders[from][family === 'ipv6' ? 1 : 0];
  const arrival = from === 'node-1' ? {} : { in: from.startsWith('client') ? 'pod0' : from === 'a' ? 'pod1' : 'eth0' };
  const known = remembers === undefined ? {} : { remembers: memoryOf(program, `${endpointAddress[remembers]}:8080`) };
  const packet = {
    family,
    source,
    destination,
    protocol: protocol as TransportProtocol,
    port: Number(port),
    ...arrival,
    ...known,
  } as const;
  const localAddresses = [...addressesOf[at], '127.0.0.1', '::1'];
  const ends = trace(program, packet, { localAddresses, ipvs: virtual, nft }).map(
    ({ verdict, to: text = '', masquerade }) =>
      verdict === 'dnat' ? `${masquerade ? 'masquerade ' : ''}${nameOf(text)}` : verdict,
  );
  return [...new Set(ends)].toSorted(compareText).join(' | ');
}

/** What session affinity has for a client of an endpoint: in mode iptables the list of the endpoint's clients. */
function memoryOf({ nat }: FamilyProgram, served: string): string {
  const rules = [...nat.chains.values()].flat();
  const rule = rules.find((text) => destinationOf(text) === served && text.includes(' --name '));
  return rule === undefined ? served : (/ --name (\S+) /.exec(rule)?.[1] ?? served);
}

/** `a` of `10.244.1.5:8080`; also in IPv6. */
function nameOf(text: string): string {
  const [name] = Object.entries(endpointAddress).find(([, address]) => text === `${address}:8080`) ?? [];
  return name ?? (text === '[fd00:10:244:1::5]:8080' ? 'a' : text);
}
