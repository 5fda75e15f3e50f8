import {
  compareText,
  type Finding,
  families,
  type Family,
  printEndpoint,
  type Problem,
  printTarget,
  type ExaminedTarget,
} from '@sluice/netfilter';
import type { KubeObject } from '../model/kube.ts';
import type { Endpoint, Model, PortOfFamily, Service, ServicePort } from '../model/model.ts';

/** What a snapshot shows of a cluster. */
interface Snapshot {
  readonly model: Model;
  /** Those of reading and normalising. */
  readonly problems: readonly Problem[];
  readonly objects: readonly KubeObject[];
}

/** A port of a Service in one family. */
interface PortPlace {
  readonly name: string;
  readonly service: Service;
  readonly port: ServicePort;
  readonly family: Family;
  readonly of: PortOfFamily;
}

/**
 * The causes that need no node: endpoints, ports, policies and addresses.
 * @param node the node that packets arrive at; undefined: policy Local is judged for all nodes
 */
export function snapshotCauses(
  target: ExaminedTarget,
  snapshot: Snapshot,
  node: string | undefined,
): readonly Finding[] {
  const places = placesOf(snapshot.model);
  const asked = places.filter((place) => isAsked(target, place, snapshot.model));
  // Of many Services some have no endpoints, which is usual.
  const certainty = target.kind === 'all' ? 'note' : 'certain';
  const found = asked.flatMap((place): Finding | readonly [] => {
    const cause = endpointCause(place, snapshot, node);
    return cause ? { ...cause, certainty } : [];
  });
  return [
    ...(asked.length === 0 ? unknownTarget(target, places, snapshot) : [...found, ...leftAddresses(target, snapshot)]),
    ...nodeCauses(target, asked, snapshot),
    ...clashes(target, asked, snapshot.problems),
  ];
}

const placesOf = ({ services }: Model): readonly PortPlace[] =>
  services.flatMap((service) =>
    service.ports.flatMap((port) =>
      families.flatMap((family) => {
        const of = port.families[family];
        return of ? [{ name: `${service.namespace}/${service.name}`, service, port, family, of }] : [];
      }),
    ),
  );

function isAsked(target: ExaminedTarget, { name, port, family, of }: PortPlace, { nodes }: Model): boolean {
  if (target.kind === 'all') return true;
  if (target.kind === 'service')
    return name === target.service && (target.port === undefined || port.name === target.port);
  const addresses = [of.clusterIP, ...of.externalIPs, ...of.loadBalancerIPs];
  const isNodePort = port.nodePort > 0 && nodes.some(({ address }) => address[family] === target.address);
  if (addresses.includes(target.address)) return target.port === undefined || target.port === port.port;
  return isNodePort && (target.port === undefined || target.port === port.nodePort);
}

type Cause = Omit<Finding, 'certainty'>;

function endpointCause(place: PortPlace, { problems, objects }: Snapshot, node: string | undefined): Cause | undefined {
  const { name, port, of, family } = place;
  const about = port.key;
  const [namespace = '', service = ''] = name.split('/');
  const fix = `kubectl -n ${namespace} get endpointslices -l kubernetes.io/service-name=${service}`;
  const usable = usableOf(of.endpoints);
  const where = `${about} (${printEndpoint(of.clusterIP, port.port)}/${port.protocol})`;
  if (of.endpoints.length === 0) {
    const wrongPort = problems.find(
      ({ code, object }) => code === 'ENDPOINT_WITHOUT_PORT' && object === `Service ${name}`,
    );
    if (wrongPort)
      return { code: 'TARGET_PORT_UNKNOWN', about, evidence: [`${wrongPort.message}; ${wrongPort.hint}`], fix };
    const slices = objects.filter((object) => isSliceOf(object, namespace, service));
    if (slices.length === 0)
      return {
        code: 'SELECTOR_MATCHES_NOTHING',
        about,
        evidence: [`no EndpointSlice belongs to ${name}`],
        fix: `kubectl -n ${namespace} describe service ${service}`,
      };
    return {
      code: 'NO_ENDPOINTS',
      about,
      evidence: [`${slices.length} EndpointSlices belong to ${name}, and none has a ${family} endpoint for ${where}`],
      fix,
    };
  }
  if (usable.length === 0)
    return {
      code: 'ENDPOINTS_NOT_READY',
      about,
      evidence: of.endpoints.map(({ text, nodeName }) => `${text} on ${nodeName ?? 'an unknown node'} is not ready`),
      fix: `kubectl -n ${namespace} get pods -o wide`,
    };
  return localCause(place, usable, node, fix);
}

/** Terminating endpoints that still serve count where none is ready (`kube-proxy-operations`, endpoint selection). */
function usableOf(endpoints: readonly Endpoint[]): readonly Endpoint[] {
  const ready = endpoints.filter((one) => one.ready);
  return ready.length > 0 ? ready : endpoints.filter((one) => one.serving && one.terminating);
}

function localCause(
  { port, of }: PortPlace,
  usable: readonly Endpoint[],
  node: string | undefined,
  fix: string,
): Cause | undefined {
  // Whether an endpoint elsewhere is ready does not count: policy Local chooses among those of the node (`CategorizeEndpoints`).
  const local = usableOf(of.endpoints.filter(({ nodeName }) => nodeName === node));
  const isExternal = port.nodePort > 0 || of.externalIPs.length > 0 || of.loadBalancerIPs.length > 0;
  const policies = [
    ...(port.internalTrafficPolicy === 'Local' ? ['internalTrafficPolicy'] : []),
    ...(port.externalTrafficPolicy === 'Local' && isExternal ? ['externalTrafficPolicy'] : []),
  ];
  if (node === undefined || policies.length === 0 || local.length > 0) return undefined;
  const on = [...new Set(usable.flatMap(({ nodeName }) => nodeName ?? []))].toSorted(compareText);
  return {
    code: 'NO_LOCAL_ENDPOINT',
    about: port.key,
    evidence: [
      `${policies.join(' and ')} is Local, and ${node} has no endpoint; ${on.slice(0, 5).join(', ') || 'no known node'} has`,
    ],
    fix,
  };
}

/** Endpoints that get traffic, on nodes whose condition Ready is not True: connections to them may work or not. */
function nodeCauses(target: ExaminedTarget, asked: readonly PortPlace[], { objects }: Snapshot): readonly Finding[] {
  const conditions = new Map(objects.flatMap((object) => (object.kind === 'Node' ? [readyOf(object)] : [])));
  return asked.flatMap(({ port, of }) => {
    const usable = usableOf(of.endpoints);
    const dead = usable.filter(({ nodeName = '' }) => (conditions.get(nodeName) ?? 'True') !== 'True');
    const [{ nodeName = '' } = {}] = dead;
    if (dead.length === 0) return [];
    return {
      code: 'ENDPOINT_NODE_NOT_READY',
      certainty: target.kind === 'all' ? 'note' : 'likely',
      about: port.key,
      evidence: [
        `${dead.length} of ${usable.length} endpoints are on nodes that are not ready`,
        ...dead.map(
          (one) => `${one.text} is on ${one.nodeName}, whose condition Ready is ${conditions.get(one.nodeName ?? '')}`,
        ),
      ],
      fix: `kubectl describe node ${nodeName}`,
    };
  });
}

/** The name of a Node, and the status of its condition Ready; without one it counts as True. */
function readyOf({ value }: KubeObject): readonly [string, string] {
  const { metadata, status } = value as {
    readonly metadata?: { readonly name?: string };
    readonly status?: { readonly conditions?: readonly { readonly type?: string; readonly status?: string }[] };
  };
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return [metadata?.name ?? '', ready?.status ?? 'True'];
}

function isSliceOf({ kind, value }: KubeObject, namespace: string, service: string): boolean {
  const { metadata } = value as ServiceValue;
  if ((metadata?.namespace ?? 'default') !== namespace) return false;
  if (kind === 'Endpoints') return metadata?.name === service;
  return kind === 'EndpointSlice' && metadata?.labels?.['kubernetes.io/service-name'] === service;
}

function unknownTarget(
  target: ExaminedTarget,
  places: readonly PortPlace[],
  { objects }: Snapshot,
): readonly Finding[] {
  if (target.kind === 'all') return [];
  const text = printTarget(target);
  const left = objects.find((object) => isAskedService(object, target));
  const isServed = places.some(({ name }) => left && name === nameOf(left));
  const because = left && leftBecause(left, target, isServed);
  if (left && because !== undefined) return [leftTo(left, text, 'certain', because)];
  return [
    {
      code: 'SERVICE_UNKNOWN',
      certainty: 'certain',
      about: text,
      evidence: [
        `the input has ${new Set(places.map(({ name }) => name)).size} Services with addresses, and none is ${text}`,
      ],
      fix: 'kubectl get services -A -o wide',
    },
  ];
}

/** Of a Service that is served: its addresses that are not. */
function leftAddresses(target: ExaminedTarget, { objects }: Snapshot): readonly Finding[] {
  if (target.kind !== 'service') return [];
  return objects
    .filter((object) => isAskedService(object, target))
    .flatMap((object) => proxiedOf(object).map((ip) => leftTo(object, ip, 'note', byBalancer(object, ip))));
}

const leftTo = (object: KubeObject, about: string, certainty: Finding['certainty'], because: string): Finding => ({
  code: 'SERVICE_LEFT_TO_OTHERS',
  certainty,
  about,
  evidence: [because],
  fix: commandOf(object),
});

const clashCodes: ReadonlySet<string> = new Set(['VIP_CONFLICT', 'NODE_PORT_CONFLICT', 'SERVICE_SHADOWS']);

function clashes(
  target: ExaminedTarget,
  asked: readonly PortPlace[],
  problems: readonly Problem[],
): readonly Finding[] {
  const names = new Set(asked.map(({ name }) => `Service ${name}`));
  return problems
    .filter(
      ({ code, object, message }) =>
        clashCodes.has(code) &&
        (target.kind === 'all' ||
          names.has(object ?? '') ||
          [...names].some((name) => message.includes(name.replace('Service ', '')))),
    )
    .map(
      ({ code, object = '', message, hint }): Finding => ({
        code: code === 'SERVICE_SHADOWS' ? 'ADDRESS_ON_INTERFACE' : 'ADDRESS_SHARED',
        certainty: 'certain',
        about: object.replace('Service ', ''),
        evidence: [`${message} [${code}]`, hint],
        fix: 'kubectl get services -A -o wide',
      }),
    );
}

/** Of other objects the metadata are the same. */
interface ServiceValue {
  readonly metadata?: {
    readonly namespace?: string;
    readonly name?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec?: { readonly type?: string; readonly clusterIP?: string };
  readonly status?: {
    readonly loadBalancer?: { readonly ingress?: readonly { readonly ip?: string; readonly ipMode?: string }[] };
  };
}

const nameOf = ({ value }: KubeObject): string => {
  const { metadata } = value as ServiceValue;
  return `${metadata?.namespace ?? 'default'}/${metadata?.name ?? ''}`;
};

function isAskedService(object: KubeObject, target: ExaminedTarget): boolean {
  if (object.kind !== 'Service' || target.kind === 'all') return false;
  if (target.kind === 'service') return nameOf(object) === target.service;
  const { spec, status } = object.value as ServiceValue;
  return [spec?.clusterIP, ...(status?.loadBalancer?.ingress ?? []).map(({ ip }) => ip)].includes(target.address);
}

const proxyName = 'service.kubernetes.io/service-proxy-name';
const headless = 'service.kubernetes.io/headless';

/**
 * Why kube-proxy leaves a Service, or the address that is asked, to others on purpose; undefined: it does not.
 * @param isServed the label of headless Services counts for some versions alone
 */
function leftBecause(object: KubeObject, target: ExaminedTarget, isServed: boolean): string | undefined {
  if (target.kind === 'address' && proxiedOf(object).includes(target.address))
    return byBalancer(object, target.address);
  if (isServed) return undefined;
  const { metadata, spec } = object.value as ServiceValue;
  const name = `Service ${nameOf(object)}`;
  const labels = metadata?.labels ?? {};
  if (labels[proxyName] !== undefined)
    return `${name} has label ${proxyName}=${labels[proxyName]}: the proxy of that name serves it`;
  if (labels[headless] !== undefined) return `${name} has label ${headless}: no proxy serves it`;
  if (spec?.type === 'ExternalName') return `${name} is of type ExternalName: DNS answers with another name`;
  if (spec?.clusterIP === 'None') return `${name} is headless (clusterIP: None): DNS answers with its endpoints`;
  return undefined;
}

/** Its addresses with `ipMode: Proxy`. */
const proxiedOf = ({ value }: KubeObject): readonly string[] =>
  ((value as ServiceValue).status?.loadBalancer?.ingress ?? []).flatMap(({ ip, ipMode }) =>
    ip !== undefined && ipMode === 'Proxy' ? [ip] : [],
  );

const byBalancer = (object: KubeObject, ip: string): string =>
  `${ip} of Service ${nameOf(object)} has ipMode Proxy: the load balancer itself takes packets to it`;

function commandOf(object: KubeObject): string {
  const [namespace = '', name = ''] = nameOf(object).split('/');
  return `kubectl -n ${namespace} get service ${name} -o yaml`;
}
