import { cidrContains, type Family, type ResolvedRules, type TableName } from '@sluice/netfilter';
import type { Profile } from '../model/config.ts';
import type { Endpoint, Node, PortOfFamily, ServicePort } from '../model/model.ts';
import { hash16 } from '../model/chain-names.ts';

/**
 * The rules that kube-proxy writes for one Service port on one node, in the structure of kube-proxy's own code (`syncProxyRules` in
 * `pkg/proxy/iptables/proxier.go`, `CategorizeEndpoints` in `pkg/proxy/topology.go`). It has neither guards nor files, so that it shares
 * no mistake with the compiler, which writes one file for all nodes.
 */
export function kubeProxyRules(port: ServicePort, family: Family, node: Node, profile: Profile): ResolvedRules {
  const here = port.families[family];
  const written: Written = { filter: { chains: [], rules: [] }, nat: { chains: [], rules: [] } };
  if (here) new Sync(port, here, family, node, profile, written).run();
  return withoutUnreached(written);
}

type Written = Record<TableName, { chains: string[]; rules: string[] }>;

/** Drops chains without a caller, such as those for external IPs with the feature gate off: Sluice leaves them out. */
function withoutUnreached({ filter, nat }: Written): Written {
  const isReached = (chain: string): boolean => nat.rules.some((rule) => rule.endsWith(` -j ${chain}`));
  const chains = nat.chains.filter(isReached);
  if (chains.length === nat.chains.length) return { filter, nat };
  const gone = new Set(nat.chains.filter((chain) => !chains.includes(chain)));
  const rules = nat.rules.filter((rule) => !gone.has(rule.split(' ')[1] ?? ''));
  return withoutUnreached({ filter, nat: { chains, rules } });
}

/** The sections of `syncProxyRules`; names are kube-proxy's. */
class Sync {
  readonly #port: ServicePort;
  readonly #here: PortOfFamily;
  readonly #node: Node;
  readonly #out: Written;
  readonly #family: Family;
  readonly #profile: Profile;
  readonly #endpoints: Categories;
  readonly #hash: string;

  constructor(port: ServicePort, here: PortOfFamily, family: Family, node: Node, profile: Profile, out: Written) {
    [this.#port, this.#here, this.#family, this.#node, this.#profile, this.#out] = [
      port,
      here,
      family,
      node,
      profile,
      out,
    ];
    this.#endpoints = categorize(port, here, node);
    this.#hash = hash16(port.key + port.protocol.toLowerCase());
  }

  run(): void {
    const { cluster, local, hasAny } = this.#endpoints;
    const [svc, svl, ext, fw] = ['SVC', 'SVL', 'EXT', 'FW'].map((kind) => `KUBE-${kind}-${this.#hash}`) as Chains;
    const internal =
      this.#port.internalTrafficPolicy === 'Local' ? { chain: svl, list: local } : { chain: svc, list: cluster };
    const external =
      this.#port.externalTrafficPolicy === 'Local' ? { chain: svl, list: local } : { chain: svc, list: cluster };
    const usesExt = hasAny && isExternallyAccessible(this.#port, this.#here);
    const usesFW = hasAny && this.#here.loadBalancerIPs.length > 0 && this.#here.loadBalancerSourceRanges.length > 0;
    const declared = this.#out.nat.chains;
    if (usesExt) declared.push(ext);
    if (usesFW) declared.push(fw);
    if (cluster.length > 0) declared.push(svc);
    if (local.length > 0) declared.push(svl);
    declared.push(...this.#endpoints.all.map((endpoint) => this.#sep(endpoint)));

    this.#clusterIP(internal);
    // `ExternalIPs()` checks the gate, `ExternallyAccessible()` does not.
    const externalIPs = this.#profile.featureGates.AllowServiceExternalIPs ? this.#here.externalIPs : [];
    for (const address of externalIPs) this.#vip(address, 'external IP', external.list, usesExt ? ext : '');
    for (const address of this.#here.loadBalancerIPs) {
      this.#vip(address, 'loadbalancer IP', external.list, usesFW ? fw : usesExt ? ext : '', usesFW ? fw : '');
    }
    this.#nodePorts(external.list, usesExt ? ext : '');
    this.#masquerade(internal);
    if (usesExt) this.#externalChain(ext, svc, external);
    if (usesFW) this.#firewallChain(fw, ext);
    this.#dispatch(svc, cluster);
    this.#dispatch(svl, local);
    for (const endpoint of this.#endpoints.all) this.#endpointChain(endpoint);
  }

  #clusterIP({ chain, list }: ChainEndpoints): void {
    const match = this.#to(this.#here.clusterIP);
    if (list.length > 0) this.#nat(`KUBE-SERVICES ${this.#say('cluster IP')} ${match} -j ${chain}`);
    else this.#refuse('KUBE-SERVICES', match);
  }

  #vip(address: string, what: string, list: readonly Endpoint[], target: string, firewall = ''): void {
    const match = this.#to(address);
    if (target !== '') this.#nat(`KUBE-SERVICES ${this.#say(what)} ${match} -j ${target}`);
    if (firewall !== '') {
      this.#filter(`KUBE-PROXY-FIREWALL ${this.#say(`traffic not accepted by ${firewall}`)} ${match} -j DROP`);
    }
    if (list.length === 0) this.#refuse('KUBE-EXTERNAL-SERVICES', match);
  }

  #nodePorts(list: readonly Endpoint[], ext: string): void {
    const { nodePort, healthCheckNodePort, key } = this.#port;
    if (nodePort !== 0) {
      const match = `${this.#protocol()} --dport ${nodePort}`;
      if (ext !== '') this.#nat(`KUBE-NODEPORTS -m comment --comment ${key} ${match} -j ${ext}`);
      if (list.length === 0) this.#refuse('KUBE-EXTERNAL-SERVICES', `-m addrtype --dst-type LOCAL ${match}`);
    }
    if (healthCheckNodePort === 0) return;
    this.#filter(
      `KUBE-NODEPORTS ${this.#say('health check node port')} -m tcp -p tcp --dport ${healthCheckNodePort} -j ACCEPT`,
    );
  }

  #masquerade({ chain, list }: ChainEndpoints): void {
    const detected = this.#detector('! ');
    if (list.length === 0 || (!this.#profile.iptables.masqueradeAll && detected === '')) return;
    const who = this.#profile.iptables.masqueradeAll ? '' : `${detected} `;
    this.#nat(`${chain} ${this.#say('cluster IP')} ${this.#to(this.#here.clusterIP)} ${who}-j KUBE-MARK-MASQ`);
  }

  #externalChain(ext: string, svc: string, { chain, list }: ChainEndpoints): void {
    const about = (what: string): string =>
      `-m comment --comment "${what} for ${this.#port.key} external destinations"`;
    if (this.#port.externalTrafficPolicy === 'Local') {
      const pods = this.#detector('');
      if (pods !== '') this.#nat(`${ext} ${about('pod traffic')} ${pods} -j ${svc}`);
      this.#nat(`${ext} ${about('masquerade LOCAL traffic')} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`);
      this.#nat(`${ext} ${about('route LOCAL traffic')} -m addrtype --src-type LOCAL -j ${svc}`);
    } else this.#nat(`${ext} ${about('masquerade traffic')} -j KUBE-MARK-MASQ`);
    if (list.length > 0) this.#nat(`${ext} -j ${chain}`);
  }

  #firewallChain(fw: string, ext: string): void {
    const ranges = this.#here.loadBalancerSourceRanges;
    const own = this.#node.address[this.#family];
    for (const range of ranges) this.#nat(`${fw} ${this.#say('loadbalancer IP')} -s ${range} -j ${ext}`);
    if (own !== undefined && ranges.some((range) => cidrContains(range, own))) {
      for (const vip of this.#here.loadBalancerIPs)
        this.#nat(`${fw} ${this.#say('loadbalancer IP')} -s ${vip} -j ${ext}`);
    }
    this.#nat(`${fw} -m comment --comment "other traffic to ${this.#port.key} will be dropped by KUBE-PROXY-FIREWALL"`);
  }

  #dispatch(chain: string, list: readonly Endpoint[]): void {
    const { affinitySeconds } = this.#port;
    for (const endpoint of affinitySeconds === undefined ? [] : list) {
      const sep = this.#sep(endpoint);
      const recent = `-m recent --name ${sep} --rcheck --seconds ${affinitySeconds} --reap`;
      this.#nat(`${chain} ${this.#say(`-> ${endpoint.text}`)} ${recent} -j ${sep}`);
    }
    for (const [index, endpoint] of list.entries()) {
      const left = list.length - index;
      const dice = left > 1 ? `-m statistic --mode random --probability ${(1 / left).toFixed(10)} ` : '';
      this.#nat(`${chain} ${this.#say(`-> ${endpoint.text}`)} ${dice}-j ${this.#sep(endpoint)}`);
    }
  }

  #endpointChain(endpoint: Endpoint): void {
    const sep = this.#sep(endpoint);
    const start = `${sep} -m comment --comment ${this.#port.key}`;
    const recent = this.#port.affinitySeconds === undefined ? '' : `-m recent --name ${sep} --set `;
    this.#nat(`${start} -s ${endpoint.address} -j KUBE-MARK-MASQ`);
    this.#nat(`${start} ${recent}${this.#protocol()} -j DNAT --to-destination ${endpoint.text}`);
  }

  #refuse(chain: string, match: string): void {
    const { hasAny } = this.#endpoints;
    const why = hasAny ? 'has no local endpoints' : 'has no endpoints';
    this.#filter(`${chain} ${this.#say(why)} ${match} -j ${hasAny ? 'DROP' : 'REJECT'}`);
  }

  #detector(not: string): string {
    const { detectLocalMode, clusterCIDR, detectLocal } = this.#profile;
    const cidr = { ClusterCIDR: clusterCIDR[this.#family], NodeCIDR: this.#node.podCIDR[this.#family] };
    switch (detectLocalMode) {
      case 'BridgeInterface':
        return `${not}-i ${detectLocal.bridgeInterface}`;
      case 'InterfaceNamePrefix':
        return `${not}-i ${detectLocal.interfaceNamePrefix}+`;
      case 'ClusterCIDR':
      case 'NodeCIDR':
        return cidr[detectLocalMode] === undefined ? '' : `${not}-s ${cidr[detectLocalMode]}`;
    }
  }

  #sep(endpoint: Endpoint): string {
    return `KUBE-SEP-${hash16(this.#port.key + this.#port.protocol.toLowerCase() + endpoint.text)}`;
  }

  #protocol(): string {
    return `-m ${this.#port.protocol.toLowerCase()} -p ${this.#port.protocol.toLowerCase()}`;
  }

  #to(address: string): string {
    return `${this.#protocol()} -d ${address} --dport ${this.#port.port}`;
  }

  #say(text: string): string {
    return `-m comment --comment "${this.#port.key} ${text}"`;
  }

  #nat(rule: string): void {
    this.#out.nat.rules.push(`-A ${rule}`);
  }

  #filter(rule: string): void {
    this.#out.filter.rules.push(`-A ${rule}`);
  }
}

type Chains = [svc: string, svl: string, ext: string, fw: string];

/** A chain and its endpoints. */
interface ChainEndpoints {
  readonly chain: string;
  readonly list: readonly Endpoint[];
}

interface Categories {
  readonly cluster: readonly Endpoint[];
  readonly local: readonly Endpoint[];
  readonly all: readonly Endpoint[];
  readonly hasAny: boolean;
}

function isExternallyAccessible(port: ServicePort, here: PortOfFamily): boolean {
  return port.nodePort !== 0 || here.loadBalancerIPs.length + here.externalIPs.length > 0;
}

/** `CategorizeEndpoints`: the same in every mode. */
export function categorize(port: ServicePort, here: PortOfFamily, node: Node): Categories {
  const external = isExternallyAccessible(port, here);
  const usesCluster = port.internalTrafficPolicy !== 'Local' || external;
  const usesLocal = port.internalTrafficPolicy === 'Local' || (port.externalTrafficPolicy === 'Local' && external);
  const ready = here.endpoints.filter((endpoint) => endpoint.ready);
  const terminating = here.endpoints.filter((endpoint) => endpoint.serving && endpoint.terminating);
  let cluster: readonly Endpoint[] = [];
  let hasAny = false;
  if (usesCluster) {
    cluster = ready.filter(availableFor(node, ready));
    if (cluster.length === 0) cluster = terminating;
    hasAny = cluster.length > 0;
  }
  if (!usesLocal) return { cluster, local: [], all: cluster, hasAny };
  hasAny ||= ready.length + terminating.length > 0;
  const isLocal = (endpoint: Endpoint): boolean => endpoint.nodeName === node.name;
  const localReady = ready.filter(isLocal);
  const local = localReady.length > 0 ? localReady : terminating.filter(isLocal);
  const texts = new Set([...cluster, ...local].map((endpoint) => endpoint.text));
  return { cluster, local, all: here.endpoints.filter((endpoint) => texts.has(endpoint.text)), hasAny };
}

/** `topologyModeFromHints` and `availableForTopology`. */
function availableFor(node: Node, ready: readonly Endpoint[]): (endpoint: Endpoint) => boolean {
  const { name, zone } = node;
  const byNode = (endpoint: Endpoint): boolean => endpoint.hintNodes.includes(name);
  if (ready.every(({ hintNodes }) => hintNodes.length > 0) && ready.some(byNode)) return byNode;
  const byZone = (endpoint: Endpoint): boolean => zone !== undefined && endpoint.hintZones.includes(zone);
  if (ready.every(({ hintZones }) => hintZones.length > 0) && ready.some(byZone)) return byZone;
  return () => true;
}
