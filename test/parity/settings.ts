import { clusterCIDR } from './clusters.ts';
import type { Minor } from './binaries.ts';

/** Part of a KubeProxyConfiguration, for kube-proxy and for `sluice render` alike. */
export type ProxyConfig = Readonly<Record<string, unknown>>;

/** How both programs are told to work, and the machine that they find. */
export interface Setting {
  readonly title: string;
  readonly config?: ProxyConfig;
  /** What the machine has before either program starts. */
  readonly sysctls?: Readonly<Record<string, string>>;
  /** The first version that knows it. */
  readonly since?: Minor;
}

export const settings: readonly [Setting, ...Setting[]] = [
  { title: 'nothing set' },
  { title: 'masqueradeAll', config: { iptables: { masqueradeAll: true } } },
  { title: 'the node CIDR as local', config: { detectLocalMode: 'NodeCIDR', clusterCIDR: '' } },
  { title: 'localhostNodePorts false', config: { iptables: { localhostNodePorts: false } } },
  { title: 'nodePortAddresses primary', config: { nodePortAddresses: ['primary'] }, since: '1.31' },
  {
    title: 'a bridge as local',
    config: { detectLocalMode: 'BridgeInterface', detectLocal: { bridgeInterface: 'pod0' }, clusterCIDR: '' },
  },
  { title: 'another bit', config: { iptables: { masqueradeBit: 10 } } },
  { title: 'no external IPs', config: { featureGates: { AllowServiceExternalIPs: false } }, since: '1.37' },
  { title: 'nodePortAddresses of the node', config: { nodePortAddresses: ['192.0.2.0/28', 'fd00::/112'] } },
  { title: 'conntrack told to be liberal', config: { conntrack: { tcpBeLiberal: true } }, since: '1.31' },
  {
    title: 'a prefix as local',
    config: { detectLocalMode: 'InterfaceNamePrefix', detectLocal: { interfaceNamePrefix: 'pod' }, clusterCIDR: '' },
  },
  { title: 'nodePortAddresses localhost', config: { nodePortAddresses: ['localhost'] }, since: '1.37' },
  {
    title: 'conntrack liberal before',
    sysctls: { 'net/netfilter/nf_conntrack_tcp_be_liberal': '1' },
  },
  {
    title: 'nodePortAddresses primary, localhost and a range',
    config: { nodePortAddresses: ['primary', 'localhost', '192.0.2.102/32'] },
    since: '1.37',
  },
  { title: 'nodePortAddresses all', config: { nodePortAddresses: ['all'] }, since: '1.37' },
];

/** The whole configuration: what a test is about, and what every cluster has. */
export const proxyConfig = ({ config = {} }: Setting): ProxyConfig => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'iptables',
  clusterCIDR: clusterCIDR.join(','),
  detectLocalMode: 'ClusterCIDR',
  ...config,
});
