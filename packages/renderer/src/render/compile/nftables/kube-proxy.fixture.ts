import { cidrContains, type Family } from '@sluice/netfilter';
import type { NftablesProfile, Profile } from '../../model/config.ts';
import type { Endpoint, Node, PortOfFamily, Service, ServicePort } from '../../model/model.ts';
import { categorize } from '../kube-proxy.fixture.ts';

/** Where a packet comes from. */
export type Source = 'pod' | 'node' | 'outside';

/** What becomes of a new connection. */
export interface Answer {
  /** `10.244.1.5 . 8080`, sorted; a verdict without endpoints. */
  readonly to: readonly string[] | 'refuse' | 'drop' | 'pass';
  readonly masquerade: boolean;
  readonly affinitySeconds?: number;
}

/** What a node does for one Service. */
export interface NftAnswers {
  /** By frontend, `10.96.0.1 . tcp . 80`, and source. */
  readonly frontends: Readonly<Record<string, Readonly<Record<Source, Answer>>>>;
  /** By frontend that has source ranges: whether each of the addresses may use it. */
  readonly ranges: Readonly<Record<string, Readonly<Record<string, boolean>>>>;
}

/** A rule of a chain: what it matches, and a target or a mark. */
type Rule = {
  readonly sources?: readonly Source[];
  readonly to: { readonly chain: string } | 'mark' | { readonly endpoints: readonly Endpoint[] };
};

/**
 * The answers of kube-proxy's mode nftables for one Service on one node: its maps and chains in the structure of its own code
 * (`syncProxyRules` in `pkg/proxy/nftables/proxier.go`), walked as the kernel does. It has neither guards nor files, so that it shares no
 * mistake with the compiler, which writes one file for all nodes.
 * @param clients the addresses that are asked about source ranges
 */
export function kubeProxyNft(
  service: Service,
  node: Node,
  profile: Profile,
  clients: Readonly<Record<Family, readonly string[]>>,
): NftAnswers {
  const frontends: Record<string, Record<Source, Answer>> = {};
  const ranges: Record<string, Record<string, boolean>> = {};
  for (const family of profile.families) {
    const sync = new Sync(family, node, profile, profile.nftables!);
    for (const port of service.ports) sync.port(port);
    for (const key of sync.keys()) {
      frontends[key] = { pod: sync.ask(key, 'pod'), node: sync.ask(key, 'node'), outside: sync.ask(key, 'outside') };
      const admits = sync.firewall.get(key);
      if (admits) ranges[key] = Object.fromEntries(clients[family].map((client) => [client, admits(client)]));
    }
  }
  return { frontends, ranges };
}

class Sync {
  readonly #family: Family;
  readonly #node: Node;
  readonly #profile: Profile;
  readonly #options: NftablesProfile;
  /** The sources that the detector calls local; undefined: there is no detector. */
  readonly #pods: readonly Source[] | undefined;
  readonly #serviceIPs = new Map<string, string>();
  readonly #noEndpoints = new Map<string, 'refuse' | 'drop'>();
  readonly #chains = new Map<string, Rule[]>();
  readonly #affinity = new Map<string, number>();
  /** By frontend: whether a source passes the chain of its ranges. */
  readonly firewall = new Map<string, (client: string) => boolean>();

  constructor(family: Family, node: Node, profile: Profile, options: NftablesProfile) {
    [this.#family, this.#node, this.#profile, this.#options] = [family, node, profile, options];
    const hasDetector = {
      ClusterCIDR: profile.clusterCIDR[family] !== undefined,
      NodeCIDR: node.podCIDR[family] !== undefined,
      BridgeInterface: true,
      InterfaceNamePrefix: true,
    }[profile.detectLocalMode];
    this.#pods = hasDetector ? ['pod'] : undefined;
  }

  keys(): readonly string[] {
    return [...new Set([...this.#serviceIPs.keys(), ...this.#noEndpoints.keys()])];
  }

  port(port: ServicePort): void {
    const here = port.families[this.#family];
    if (!here) return;
    const { cluster, local, hasAny } = categorize(port, here, this.#node);
    const name = `${port.key}/${port.protocol}`;
    const [svc, svl, ext] = [`service-${name}`, `local-${name}`, `external-${name}`] as const;
    const internal =
      port.internalTrafficPolicy === 'Local' ? { chain: svl, list: local } : { chain: svc, list: cluster };
    const external =
      port.externalTrafficPolicy === 'Local' ? { chain: svl, list: local } : { chain: svc, list: cluster };
    const verdict = hasAny ? 'drop' : 'refuse';
    const key = (address: string, number = port.port): string =>
      `${address} . ${port.protocol.toLowerCase()} . ${number}`;
    if (internal.list.length > 0) this.#serviceIPs.set(key(here.clusterIP), `cluster-ip-${name}`);
    else this.#noEndpoints.set(key(here.clusterIP), verdict);
    // In kube-proxy the rule that marks is in the internal chain and matches the ClusterIP.
    this.#chains.set(`cluster-ip-${name}`, [...this.#clusterIPRules(), { to: { chain: internal.chain } }]);
    const externalIPs = this.#profile.featureGates.AllowServiceExternalIPs ? here.externalIPs : [];
    const outside = [...externalIPs, ...here.loadBalancerIPs].map((address) => key(address));
    if (port.nodePort !== 0) outside.push(key(this.#family === 'ipv4' ? '0.0.0.0' : '::', port.nodePort));
    for (const each of outside) {
      if (hasAny) this.#serviceIPs.set(each, ext);
      if (external.list.length === 0) this.#noEndpoints.set(each, verdict);
    }
    this.#chains.set(ext, this.#externalRules(port, svc, external));
    this.#firewall(here, (address) => key(address));
    this.#chains.set(svc, [{ to: { endpoints: cluster } }]);
    this.#chains.set(svl, [{ to: { endpoints: local } }]);
    if (port.affinitySeconds !== undefined)
      for (const chain of [svc, svl]) this.#affinity.set(chain, port.affinitySeconds);
  }

  /** The walk of a new connection through map `service-ips` and its chains, then `service-endpoints-check`. */
  ask(key: string, source: Source): Answer {
    let masquerade = false;
    let name = this.#serviceIPs.get(key);
    walk: while (name !== undefined) {
      for (const { sources, to } of this.#chains.get(name) ?? []) {
        if (sources && !sources.includes(source)) continue;
        if (to === 'mark') masquerade = true;
        else if ('chain' in to) {
          name = to.chain;
          continue walk;
        } else if (to.endpoints.length > 0) {
          const affinitySeconds = this.#affinity.get(name);
          const texts = to.endpoints.map(({ address, port }) => `${address} . ${port}`).toSorted();
          return { to: texts, masquerade, ...(affinitySeconds === undefined ? {} : { affinitySeconds }) };
        }
      }
      break;
    }
    // A packet that is not translated is not masqueraded.
    return { to: this.#noEndpoints.get(key) ?? 'pass', masquerade: false };
  }

  #clusterIPRules(): readonly Rule[] {
    if (this.#options.masqueradeAll) return [{ to: 'mark' }];
    return this.#pods ? [{ sources: ['node', 'outside'], to: 'mark' }] : [];
  }

  #externalRules(port: ServicePort, svc: string, external: { chain: string; list: readonly Endpoint[] }): Rule[] {
    const rules: Rule[] = [];
    if (port.externalTrafficPolicy === 'Local') {
      if (this.#pods) rules.push({ sources: this.#pods, to: { chain: svc } });
      rules.push({ sources: ['node'], to: 'mark' }, { sources: ['node'], to: { chain: svc } });
    } else rules.push({ to: 'mark' });
    if (external.list.length > 0) rules.push({ to: { chain: external.chain } });
    return rules;
  }

  #firewall(here: PortOfFamily, key: (address: string) => string): void {
    const ranges = here.loadBalancerSourceRanges;
    if (ranges.length === 0) return;
    const own = this.#node.address[this.#family];
    const isIn = (client: string): boolean => ranges.some((range) => cidrContains(range, client));
    const admitsOwn = own !== undefined && isIn(own);
    for (const address of here.loadBalancerIPs)
      this.firewall.set(key(address), (client) => isIn(client) || (admitsOwn && here.loadBalancerIPs.includes(client)));
  }
}
