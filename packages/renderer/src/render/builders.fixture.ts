import type { Problem } from '@sluice/netfilter';
import type { SluiceConfig, Profile } from './model/config.ts';
import type { Json, JsonObject, KubeKind, KubeObject, Path } from './model/kube.ts';
import type { Model } from './model/model.ts';
import { apiVersions } from './read/names.ts';
import { type Normalised, type NormaliseInput, normalise } from './normalise.ts';

/** Objects and configs for tests. The place of a field is spelled as its path: `Service web#spec.ports.0.port`. */

/** A Kubernetes object; `file` distinguishes two of one name. */
export function object(kind: KubeKind, metadata: JsonObject, fields: JsonObject, file?: string): KubeObject {
  const [apiVersion] = apiVersions[kind];
  const name = file ?? `${kind} ${metadata['name'] as string}`;
  return {
    kind,
    apiVersion,
    value: { apiVersion, kind, metadata, ...fields },
    origin: { place: (path: Path) => ({ file: `${name}#${path.join('.')}`, line: 1, column: 1 }) },
  };
}

const http: JsonObject = { name: 'http', port: 80, targetPort: 8080 };

/** Service `shop/<name>` with a ClusterIP, a selector and the port http; `spec` overrides fields, undefined removes one. */
export function service(name: string, spec: Changes = {}, more: Changes = {}, file?: string): KubeObject {
  const normal = { clusterIP: '10.96.0.1', selector: { app: name }, ports: [http] };
  const { labels, annotations, ...fields } = more;
  const metadata = changed({ name, namespace: 'shop' }, { labels, annotations });
  return object('Service', metadata, changed({ spec: changed(normal, spec) }, fields), file);
}

/** EndpointSlice `shop/<service>-1` of addressType IPv4 with the port http 8080 and one ready endpoint. */
export function slice(of: string, fields: Changes = {}, more: Changes = {}, file?: string): KubeObject {
  const { name = `${of}-1`, labels = { 'kubernetes.io/service-name': of } } = more;
  const normal = { addressType: 'IPv4', ports: [{ name: 'http', port: 8080 }], endpoints: [endpoint('10.244.1.5')] };
  return object('EndpointSlice', { name, namespace: 'shop', labels }, changed(normal, fields), file);
}

/** One endpoint of a slice, without conditions. */
export function endpoint(address: string, more: Changes = {}): JsonObject {
  return changed({ addresses: [address] }, more);
}

/** Endpoints `shop/<name>` with one address and the port http 8080. */
export function endpoints(name: string, subset: Changes = {}, file?: string): KubeObject {
  const normal = { addresses: [{ ip: '10.244.1.5' }], ports: [{ name: 'http', port: 8080 }] };
  return object('Endpoints', { name, namespace: 'shop' }, { subsets: [changed(normal, subset)] }, file);
}

/** Node `<name>` with an InternalIP, a pod CIDR, 4 cores and the zone a. */
export function node(
  name: string,
  fields: Changes = {},
  labels: Json = { 'topology.kubernetes.io/zone': 'a' },
): KubeObject {
  const normal = {
    spec: { podCIDR: '10.244.1.0/24' },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }], capacity: { cpu: '4' } },
  };
  return object('Node', { name, labels }, changed(normal, fields));
}

export interface Changes {
  readonly [key: string]: Json | undefined;
}

/** `value` with other fields; undefined removes one. */
export function changed(value: JsonObject, changes: Changes): JsonObject {
  const merged = Object.entries({ ...value, ...changes });
  return Object.fromEntries(merged.filter((entry): entry is [string, Json] => entry[1] !== undefined));
}

/** A profile with kube-proxy's defaults. */
export function profile(name: string, more: Partial<Profile> = {}): Profile {
  return {
    name,
    nodeSelector: {},
    mode: 'iptables',
    families: ['ipv4', 'ipv6'],
    featureGates: { AllowServiceExternalIPs: true },
    iptables: { masqueradeBit: 14, masqueradeAll: false, localhostNodePorts: true, randomFully: true },
    detectLocalMode: 'ClusterCIDR',
    detectLocal: { bridgeInterface: '', interfaceNamePrefix: '' },
    clusterCIDR: { ipv4: '10.244.0.0/16' },
    nodePortAddresses: [],
    conntrack: {
      maxPerCore: 32_768,
      min: 131_072,
      tcpEstablishedTimeout: 86_400,
      tcpCloseWaitTimeout: 3600,
      udpTimeout: 0,
      udpStreamTimeout: 0,
      tcpBeLiberal: false,
    },
    sysctls: {},
    ...more,
  };
}

export function config(more: Partial<SluiceConfig> = {}): SluiceConfig {
  return {
    clusterName: 'test',
    complete: false,
    profiles: [profile('default')],
    serviceCIDRs: { ipv4: ['10.96.0.0/16'], ipv6: ['fd00:96::/112'] },
    primaryFamily: 'ipv4',
    nodePortRange: { from: 30_000, to: 32_767 },
    named: { serviceCIDRs: false, nodePortRange: false },
    nodes: [],
    ...more,
  };
}

/** Normalises a change without allocation; `more` overrides the input. */
export function normalised(change: readonly KubeObject[], more: Partial<NormaliseInput> = {}): Normalised {
  return normalise({ base: [], change, config: config(), allocations: [], allocate: false, snapshot: false, ...more });
}

export function modelOf(change: readonly KubeObject[], more: Partial<NormaliseInput> = {}): Model {
  return normalised(change, more).model;
}

/** Problems as lines such as `error PORT_INVALID Service web#spec.ports.0.port`. */
export function lines(problems: readonly Problem[]): string[] {
  return problems.map((problem) => `${problem.level} ${problem.code} ${problem.at?.file ?? '-'}`);
}
