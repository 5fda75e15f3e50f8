import { cidrContains, type Family, type IpvsHost, setName, type SetKey } from '@sluice/netfilter';
import type { IpvsProfile, Profile } from '../../model/config.ts';
import type { Endpoint, Node, PortOfFamily, Service, ServicePort } from '../../model/model.ts';
import { categorize } from '../kube-proxy.fixture.ts';
import { ipvsSchedulerOf } from '../../model/schedulers.ts';

/**
 * The state of kube-proxy's mode ipvs for one Service on one node, in the structure of kube-proxy's own code (`syncProxyRules`,
 * `syncService` and `syncEndpoint` in `pkg/proxy/ipvs/proxier.go`). It has neither guards nor files, so that it shares no mistake with the
 * compiler, which writes one file for all nodes.
 */
export interface IpvsNode {
  /** `10.96.0.1:80/TCP rr 600` → `10.244.1.5:8080 w1`, sorted. */
  readonly servers: Readonly<Record<string, readonly string[]>>;
  /** Sets that are not empty, with sorted entries. */
  readonly sets: Readonly<Record<string, readonly string[]>>;
  /** The Service's own rules. */
  readonly outFilter: Readonly<Partial<Record<Family, readonly string[]>>>;
}

export function kubeProxyIpvs(
  service: Service,
  node: Node,
  profile: Profile,
  host: IpvsHost,
  nodes: readonly Node[],
): IpvsNode {
  const sync = new Sync(service, node, profile, profile.ipvs!, host, nodes);
  for (const family of profile.families) for (const port of service.ports) sync.port(port, family);
  return sync.result();
}

class Sync {
  readonly #service: Service;
  readonly #node: Node;
  readonly #profile: Profile;
  readonly #ipvs: IpvsProfile;
  readonly #host: IpvsHost;
  readonly #labels: ReadonlyMap<string, Node>;
  readonly #servers = new Map<string, Set<string>>();
  readonly #sets = new Map<string, Set<string>>();
  readonly #outFilter: Partial<Record<Family, string[]>> = {};

  constructor(
    service: Service,
    node: Node,
    profile: Profile,
    ipvs: IpvsProfile,
    host: IpvsHost,
    nodes: readonly Node[],
  ) {
    [this.#service, this.#node, this.#profile, this.#ipvs, this.#host] = [service, node, profile, ipvs, host];
    this.#labels = new Map(nodes.map((each) => [each.name, each]));
  }

  port(port: ServicePort, family: Family): void {
    const whole = port.families[family];
    if (!whole) return;
    // kube-proxy checks the gate where it writes servers and entries; endpoints of a Service with external IPs alone are not compared.
    const here = this.#profile.featureGates.AllowServiceExternalIPs ? whole : { ...whole, externalIPs: [] };
    const { cluster, local, all } = categorize(port, here, this.#node);
    const choose = (onlyLocal: boolean): readonly Endpoint[] => (onlyLocal && local.length > 0 ? local : cluster);
    const [inside, outside] = [port.internalTrafficPolicy === 'Local', port.externalTrafficPolicy === 'Local'];
    const proto = port.protocol.toLowerCase();
    for (const endpoint of all)
      if (endpoint.nodeName === this.#node.name)
        this.#add('KUBE-LOOP-BACK', family, `${endpoint.address},${proto}:${endpoint.port},${endpoint.address}`);
    this.#vip(port, family, here.clusterIP, choose(inside), ['KUBE-CLUSTER-IP']);
    for (const address of here.externalIPs)
      this.#vip(port, family, address, choose(outside), [outside ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP']);
    for (const address of here.loadBalancerIPs) {
      this.#vip(port, family, address, choose(outside), [
        'KUBE-LOAD-BALANCER',
        ...(outside ? (['KUBE-LOAD-BALANCER-LOCAL'] as const) : []),
        ...(here.loadBalancerSourceRanges.length > 0 ? (['KUBE-LOAD-BALANCER-FW'] as const) : []),
      ]);
      this.#sourceRanges(port, family, here, address);
    }
    this.#nodePort(port, family, choose(outside), outside);
    if (port.healthCheckNodePort !== 0)
      this.#add('KUBE-HEALTH-CHECK-NODE-PORT', family, String(port.healthCheckNodePort));
  }

  result(): IpvsNode {
    const plain = (map: ReadonlyMap<string, ReadonlySet<string>>): Record<string, string[]> =>
      Object.fromEntries([...map].map(([name, values]) => [name, [...values].toSorted()]));
    return { servers: plain(this.#servers), sets: plain(this.#sets), outFilter: this.#outFilter };
  }

  #vip(port: ServicePort, family: Family, address: string, list: readonly Endpoint[], sets: readonly SetKey[]): void {
    this.#server(port, family, address, port.port, list);
    for (const set of sets) this.#add(set, family, `${address},${port.protocol.toLowerCase()}:${port.port}`);
    // An address of another interface is not bound.
    if (!this.#host[family].own.includes(address)) this.#add('KUBE-IPVS-IPS', family, address);
  }

  #server(port: ServicePort, family: Family, address: string, number: number, list: readonly Endpoint[]): void {
    const where = family === 'ipv6' ? `[${address}]:${number}` : `${address}:${number}`;
    const scheduler = ipvsSchedulerOf(this.#service, this.#ipvs.scheduler);
    const persistent = port.affinitySeconds === undefined ? '' : ` ${port.affinitySeconds}`;
    const flag = scheduler === 'mh' ? ' mh-port' : '';
    const real = list.map((endpoint) => `${endpoint.text} w${this.#weight(endpoint)}`);
    this.#servers.set(`${where}/${port.protocol} ${scheduler}${persistent}${flag}`, new Set(real));
  }

  #weight(endpoint: Endpoint): number {
    for (const { label, value, weight } of this.#service.weights ?? []) {
      const node = this.#labels.get(endpoint.nodeName ?? '');
      const own = label === 'topology.kubernetes.io/zone' && endpoint.zone !== undefined;
      if ((own ? endpoint.zone : node?.labels?.get(label)) === value) return weight;
    }
    return 1;
  }

  #sourceRanges(port: ServicePort, family: Family, here: PortOfFamily, vip: string): void {
    const entry = `${vip},${port.protocol.toLowerCase()}:${port.port}`;
    const ranges = here.loadBalancerSourceRanges;
    if (ranges.length === 0) return;
    for (const range of ranges) this.#add('KUBE-LOAD-BALANCER-SOURCE-CIDR', family, `${entry},${range}`);
    const own = this.#node.address[family];
    if (own !== undefined && ranges.some((range) => cidrContains(range, own))) {
      this.#add('KUBE-LOAD-BALANCER-SOURCE-IP', family, `${entry},${vip}`);
      return;
    }
    const proto = port.protocol.toLowerCase();
    (this.#outFilter[family] ??= []).push(
      `-A KUBE-IPVS-OUT-FILTER -s ${vip} -m ipvs --vaddr ${vip} --vproto ${proto} --vport ${port.port} -j DROP`,
    );
  }

  #nodePort(port: ServicePort, family: Family, list: readonly Endpoint[], onlyLocal: boolean): void {
    if (port.nodePort === 0) return;
    const addresses = this.#nodePortAddresses(family);
    if (addresses.length === 0) return;
    for (const address of addresses) this.#server(port, family, address, port.nodePort, list);
    const name = port.protocol === 'SCTP' ? 'SCTP-HASH' : port.protocol;
    const entries =
      port.protocol === 'SCTP' ? addresses.map((ip) => `${ip},sctp:${port.nodePort}`) : [`${port.nodePort}`];
    for (const entry of entries) {
      this.#add(`KUBE-NODE-PORT-${name}` as SetKey, family, entry);
      if (onlyLocal) this.#add(`KUBE-NODE-PORT-LOCAL-${name}` as SetKey, family, entry);
    }
  }

  #nodePortAddresses(family: Family): readonly string[] {
    const wanted = this.#profile.nodePortAddresses;
    const [one, loopback, all] = family === 'ipv4' ? [32, '127.0.0.0/8', '0.0.0.0/0'] : [128, '::1/128', '::/0'];
    const primary = this.#node.address[family];
    // `expandNodePortAddressKeywords`, then `NewNodePortAddresses`, except that a node without an address of the family opens none.
    const cidrs = wanted.flatMap((text) => {
      if (text === 'primary') return primary === undefined ? [] : [`${primary}/${one}`];
      if (text === 'localhost') return [loopback];
      if (text === 'all') return [all];
      return text.includes(':') === (family === 'ipv6') ? [text] : [];
    });
    const { own } = this.#host[family];
    const isOpen = cidrs.length === 0 && !wanted.includes('primary');
    return isOpen ? own : own.filter((address) => cidrs.some((cidr) => cidrContains(cidr, address)));
  }

  #add(set: SetKey, family: Family, entry: string): void {
    const name = setName(set, family);
    this.#sets.set(name, (this.#sets.get(name) ?? new Set()).add(entry));
  }
}
