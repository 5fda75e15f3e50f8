import {
  baseFile,
  type BundleFiles,
  changedFiles,
  isProblem,
  type NodeFile,
  nodeFile,
  ownAddress,
  type ProfileFile,
  profileFile,
  profileOn,
  readNode,
  readPath,
  readProfile,
  serviceFile,
} from '@sluice/bundle';
import {
  compareText,
  type Family,
  healthCheckPortIn,
  modeFacts,
  opensOwnAddressAlone,
  parseCidr,
} from '@sluice/netfilter';
import * as v from 'valibot';
import { StateFile } from '../../state/state-file.ts';

const healthService = v.strictObject({
  namespace: v.string(),
  name: v.string(),
  port: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535)),
  /** The number of distinct addresses of ready endpoints on the node. */
  localEndpoints: v.pipe(v.number(), v.integer(), v.minValue(0)),
});
/** A Service with a health-check node port: its load balancer checks each node for a local endpoint. */
export type HealthService = Readonly<v.InferOutput<typeof healthService>>;

const declaration = v.strictObject({
  services: v.pipe(v.array(healthService), v.readonly()),
  /** CIDRs that choose the addresses to listen on; empty: every address. A family without one is not listened on. */
  nodePortAddresses: v.pipe(v.array(v.string()), v.readonly()),
});
/** The health-check node ports that a bundle declares for one node. */
export type DeclaredHealth = Readonly<v.InferOutput<typeof declaration>>;

/**
 * `health.json` in the state directory: those of the active generation, for a process that starts while the bundle directory has other
 * content, or none. Rules do not tell which Services have a load balancer.
 */
export const healthFile = (state: string): StateFile<DeclaredHealth> =>
  new StateFile(`${state}/health.json`, declaration);

/**
 * The active health-check node ports with newer endpoint counts, for early endpoint sync.
 * @param newer other Services than the active ones are ignored, and missing ones keep their count
 * @param isServed checked for a Service that had no endpoint: not every Service may have its new endpoints yet, and a load balancer must
 * not send packets to a node that drops them. Fewer endpoints, or none, need no check.
 */
export function withCounts(
  active: DeclaredHealth,
  newer: DeclaredHealth,
  isServed: (service: HealthService) => boolean,
): DeclaredHealth {
  const named = ({ namespace, name }: HealthService): string => `${namespace}/${name}`;
  const counts = new Map(newer.services.map((service) => [named(service), service.localEndpoints]));
  const services = active.services.map((service) => {
    const localEndpoints = counts.get(named(service)) ?? service.localEndpoints;
    const isFirst = service.localEndpoints === 0 && localEndpoints > 0;
    return isFirst && !isServed(service) ? service : { ...service, localEndpoints };
  });
  return { ...active, services };
}

const endpointLine = /^# endpoint (?:[a-z0-9-]+ )?(?:\[([0-9a-f:]+)\]|([0-9.]+)):\d+ ([^\s,]+)(.*)$/gm;

/** The declaration in the file of one Service. */
interface DeclaredService {
  /** `namespace/name`. */
  readonly service: string;
  readonly port: number;
  readonly addresses: readonly string[];
  /** Its node ports are open on the node's own address alone. */
  readonly isOnOwn: boolean;
}

/**
 * The health-check node ports that a bundle opens, with the endpoints on one node. Endpoints are read from the comment block of a Service's
 * files, which has what the Service declares: rules have where traffic goes, which differs while endpoints terminate. kube-proxy counts
 * addresses of ready endpoints that do not terminate (`pkg/proxy/healthcheck/service_health.go`).
 * @param files of an admitted bundle; one that the node cannot read declares nothing
 * @returns Services sorted by port; each once, with both families counted together
 */
export function declaredHealth(files: BundleFiles, node: string): DeclaredHealth {
  return new HealthReader(node).read(files);
}

/** The profile of a node; undefined where the bundle has none for it. */
export function profileOf(files: BundleFiles, node: string): string | undefined {
  const own = readNode(nodeFile(node), files.get(nodeFile(node)) ?? '');
  return isProblem(own) ? undefined : own.profile;
}

/** What a bundle declares for all Services of a node. */
type NodePorts = Pick<DeclaredHealth, 'nodePortAddresses'> & {
  readonly profile: string;
  readonly families: readonly FamilyPorts[];
};

/** A family of a profile, with the node's own address in it, or none. */
interface FamilyPorts {
  readonly family: Family;
  readonly own: readonly string[];
}

/** Reads successive bundles: an unchanged file is not read again. */
export class HealthReader {
  readonly #node: string;
  /** The last texts of the node's file and of its profile's, and what they say. */
  #head: { readonly node: string; readonly profile: string; readonly ports: NodePorts | undefined } | undefined;
  #last: { readonly files: BundleFiles; readonly profile: string } | undefined;
  /** By path, for files with a declaration. */
  readonly #declared = new Map<string, DeclaredService>();

  constructor(node: string) {
    this.#node = node;
  }

  /** As `declaredHealth`. */
  read(files: BundleFiles): DeclaredHealth {
    const ports = this.#portsOf(files);
    if (!ports) return { services: [], nodePortAddresses: [] };
    this.#follow(files, ports.profile);
    const declared = [...this.#declared.values()];
    const isOnOwn = declared.some((one) => one.isOnOwn);
    const isOn = ({ family }: FamilyPorts): boolean => isOnOwn || isOnOwnAlone(files, ports.profile, family);
    const nodePortAddresses = ports.families.some(isOn)
      ? ports.families.flatMap((one) => (isOn(one) ? one.own : [wholeOf[one.family]]))
      : ports.nodePortAddresses;
    return { services: servicesOf(declared), nodePortAddresses };
  }

  #portsOf(files: BundleFiles): NodePorts | undefined {
    const textOf = (path: string): string => files.get(path) ?? '';
    const profileText = (ports: NodePorts | undefined): string => (ports ? textOf(profileFile(ports.profile)) : '');
    const [known, node] = [this.#head, textOf(nodeFile(this.#node))];
    if (known?.node === node && known.profile === profileText(known.ports)) return known.ports;
    const ports = nodePortsOf(files, this.#node);
    this.#head = { node, profile: profileText(ports), ports };
    return ports;
  }

  #follow(files: BundleFiles, profile: string): void {
    const last = this.#last?.profile === profile ? this.#last : undefined;
    if (!last) this.#declared.clear();
    for (const changed of last ? changedFiles(last.files, files) : files.keys()) {
      // What a Service declares in mode ipvs is said by both of its files.
      const path = changed.replace(/\.ipvs$/, '.ipset');
      const declared = declaredIn(path, files, profile, this.#node);
      if (declared) this.#declared.set(path, declared);
      else this.#declared.delete(path);
    }
    this.#last = { files, profile };
  }
}

/** @returns undefined: the node's file cannot be read */
function nodePortsOf(files: BundleFiles, name: string): NodePorts | undefined {
  const node = readNode(nodeFile(name), files.get(nodeFile(name)) ?? '');
  if (isProblem(node)) return undefined;
  const path = profileFile(node.profile);
  const profile = readProfile(path, files.get(path) ?? '');
  if (isProblem(profile)) return { profile: node.profile, nodePortAddresses: [], families: [] };
  const own = profileOn({ ...profile, nodePortAddresses: [ownAddress] }, node).nodePortAddresses;
  const families = profile.families.map((family) => ({
    family,
    own: own.filter((text) => parseCidr(text)?.family === family),
  }));
  return { profile: node.profile, nodePortAddresses: openNetworks(profile, node), families };
}

/** Whether the rules of a family open node ports on the node's own address alone, which the list of the profile does not say. */
function isOnOwnAlone(files: BundleFiles, profile: string, family: Family): boolean {
  const tool = family === 'ipv4' ? 'iptables' : 'ip6tables';
  return opensOwnAddressAlone(tool, files.get(baseFile(profile, 'last', tool)) ?? '');
}

/**
 * The networks with node ports on a node. In mode nftables an empty list stands for the node's own address, where that is known, as in
 * kube-proxy's `SetDefaults_KubeProxyConfiguration`. In other lists a family without a network is open as a whole: kube-proxy makes a list
 * of each family (`NewNodePortAddresses` in `pkg/proxy/util/nodeport_addresses.go`).
 */
function openNetworks(given: ProfileFile, node: NodeFile): readonly string[] {
  const isDefault = given.nodePortAddresses.length === 0 && modeFacts[given.mode].nodePorts.onlyOnOwnAddress;
  const profile = isDefault ? { ...given, nodePortAddresses: [ownAddress] } : given;
  const chosen = profileOn(profile, node).nodePortAddresses;
  if (profile.nodePortAddresses.length === 0 || profile.nodePortAddresses.includes(ownAddress)) return chosen;
  const has = (family: Family): boolean => chosen.some((text) => parseCidr(text)?.family === family);
  return [...chosen, ...profile.families.filter((family) => !has(family)).map((family) => wholeOf[family])];
}

const wholeOf = { ipv4: '0.0.0.0/0', ipv6: '::/0' } as const satisfies Record<Family, string>;

function declaredIn(path: string, files: BundleFiles, profile: string, node: string): DeclaredService | undefined {
  const kind = readPath(path);
  if (kind?.kind !== 'service' || kind.profile !== profile) return undefined;
  const text = files.get(path) ?? '';
  const port = healthCheckPortIn(kind.tool, text);
  if (port === undefined) return undefined;
  const isOnOwn = opensOwnAddressAlone(
    'ipvs',
    files.get(serviceFile(profile, kind.namespace, kind.name, 'ipvs')) ?? '',
  );
  return { service: `${kind.namespace}/${kind.name}`, port, addresses: [...localAddresses(text, node)], isOnOwn };
}

/** Groups the files of each Service: one per family. */
function servicesOf(declared: Iterable<DeclaredService>): readonly HealthService[] {
  return [...Map.groupBy(declared, ({ service }) => service)]
    .map(([service, files]) => {
      const [namespace = '', name = ''] = service.split('/');
      const addresses = new Set(files.flatMap((file) => file.addresses));
      return { namespace, name, port: files[0]?.port ?? 0, localEndpoints: addresses.size };
    })
    .toSorted((a, b) => a.port - b.port || compareText(a.namespace, b.namespace) || compareText(a.name, b.name));
}

/** packages/bundle/README.md, "Rule files": `endpoint [PORT] ADDRESS:PORT [NODE [ZONE]] [not ready] [terminating…]`. */
function* localAddresses(text: string, node: string): Generator<string> {
  for (const [, ipv6, ipv4, at, rest = ''] of text.matchAll(endpointLine)) {
    if (at === node && !/ (not ready|terminating)(,| |$)/.test(rest)) yield ipv6 ?? ipv4 ?? '';
  }
}
