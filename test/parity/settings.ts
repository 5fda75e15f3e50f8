import { clusterCIDR } from './clusters.ts';
import type { Minor } from './binaries.ts';

/** Part of a KubeProxyConfiguration, for both kube-proxy and `sluice render`. */
export type ProxyConfig = Readonly<Record<string, unknown>>;

/** The configuration of both programs, and the state of the machine. */
export interface ProxySetting {
  readonly title: string;
  readonly config?: ProxyConfig;
  /** Shell commands that prepare the machine, before either program starts. */
  readonly commands?: readonly string[];
  /** Chains that differ only in the place of a jump. */
  readonly unlike?: readonly string[];
  /** The first version with this setting. */
  readonly since?: Minor;
}

const iptables = (fields: ProxyConfig): { readonly config: ProxyConfig } => ({ config: { iptables: fields } });
const nodePorts = (...nodePortAddresses: readonly string[]): { readonly config: ProxyConfig } => ({
  config: { nodePortAddresses },
});
const local = (detectLocalMode: string, detectLocal: ProxyConfig = {}): { readonly config: ProxyConfig } => ({
  config: { detectLocalMode, detectLocal, clusterCIDR: '' },
});
/** The rules of the kubelet: its chain has its rule, and kube-proxy removes neither that nor the jumps. */
const kubelet = [
  'iptables-nft -N KUBE-FIREWALL',
  'iptables-nft -A KUBE-FIREWALL -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
  'iptables-nft -I INPUT -j KUBE-FIREWALL',
  'iptables-nft -I OUTPUT -j KUBE-FIREWALL',
];

export const settings: readonly [ProxySetting, ...ProxySetting[]] = [
  { title: 'nothing set' },
  { title: 'masqueradeAll', config: { iptables: { masqueradeAll: true }, linux: { masqueradeAll: true } } },
  { title: 'pods by the CIDR of their node', ...local('NodeCIDR') },
  { title: 'no localhost node ports', ...iptables({ localhostNodePorts: false }) },
  { title: 'node ports on the primary address', ...nodePorts('primary'), since: '1.31' },
  { title: 'pods by a bridge', ...local('BridgeInterface', { bridgeInterface: 'pod0' }) },
  { title: 'masqueradeBit 10', ...iptables({ masqueradeBit: 10 }) },
  { title: 'no external IPs', config: { featureGates: { AllowServiceExternalIPs: false } }, since: '1.37' },
  { title: 'node ports on networks without loopback', ...nodePorts('192.0.2.0/28', 'fd00::/112') },
  { title: 'liberal conntrack', config: { conntrack: { tcpBeLiberal: true } }, since: '1.31' },
  { title: 'pods by the prefix of their interfaces', ...local('InterfaceNamePrefix', { interfaceNamePrefix: 'pod' }) },
  { title: 'node ports on localhost', ...nodePorts('localhost'), since: '1.37' },
  {
    title: 'a machine with liberal TCP windows',
    commands: ['echo 1 > /proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal'],
    since: '1.31',
  },
  {
    title: 'node ports on words and a network',
    ...nodePorts('primary', 'localhost', '192.0.2.102/32'),
    since: '1.37',
  },
  { title: 'node ports on all', ...nodePorts('all'), since: '1.37' },
  { title: 'node ports on a network of IPv4, any of IPv6', ...nodePorts('192.0.2.0/24') },
  { title: 'node ports on a network of IPv6, any of IPv4', ...nodePorts('fd00::/64') },
  { title: 'node ports on loopback and a network', ...nodePorts('127.0.0.0/8', '192.0.2.0/28', '::1/128') },
  { title: 'node ports on a part of loopback', ...nodePorts('127.0.0.1/32') },
  { title: 'node ports on a network that contains loopback', ...nodePorts('126.0.0.0/7') },
  { title: 'node ports on every address', ...nodePorts('0.0.0.0/0', '::/0') },
  {
    title: 'node ports on loopback, and no localhost node ports',
    config: { iptables: { localhostNodePorts: false }, nodePortAddresses: ['127.0.0.0/8', '192.0.2.0/24'] },
  },
  { title: 'no CIDR of the cluster', config: { clusterCIDR: '' } },
  {
    title: 'a kubelet with its rules',
    ...iptables({ localhostNodePorts: false }),
    commands: kubelet,
    unlike: ['filter INPUT', 'filter OUTPUT'],
  },
];

/** The whole configuration: the setting under test, and the common fields. */
export const proxyConfig = ({ config = {} }: ProxySetting): ProxyConfig => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'iptables',
  clusterCIDR: clusterCIDR.join(','),
  detectLocalMode: 'ClusterCIDR',
  ...config,
});

const inNftables = ({ config, ...setting }: ProxySetting): ProxySetting => ({
  ...setting,
  config: { ...config, mode: 'nftables' },
});

/** Settings of mode nftables. */
export const nftablesSettings: readonly [ProxySetting, ...ProxySetting[]] = [
  inNftables({ title: 'nothing set' }),
  inNftables({ title: 'masqueradeAll', config: { nftables: { masqueradeAll: true }, linux: { masqueradeAll: true } } }),
  inNftables({ title: 'pods by the CIDR of their node', ...local('NodeCIDR') }),
  inNftables({ title: 'pods by a bridge', ...local('BridgeInterface', { bridgeInterface: 'pod0' }) }),
  inNftables({ title: 'node ports on networks without loopback', ...nodePorts('192.0.2.0/28', 'fd00::/112') }),
  inNftables({
    title: 'pods by the prefix of their interfaces',
    ...local('InterfaceNamePrefix', { interfaceNamePrefix: 'pod' }),
    // kube-proxy 1.31 writes no rules with it.
    since: '1.34',
  }),
  inNftables({ title: 'node ports on the primary address', ...nodePorts('primary') }),
  inNftables({ title: 'no external IPs', config: { featureGates: { AllowServiceExternalIPs: false } }, since: '1.37' }),
  inNftables({ title: 'node ports on a network of IPv4, any of IPv6', ...nodePorts('192.0.2.0/24') }),
  inNftables({ title: 'node ports on every address', ...nodePorts('0.0.0.0/0', '::/0') }),
  inNftables({ title: 'no CIDR of the cluster', config: { clusterCIDR: '' } }),
];

/** Settings of mode nftables in which kube-proxy 1.38 serves node ports on localhost, or refuses them, family by family. */
export const localhostSettings: readonly [ProxySetting, ...ProxySetting[]] = [
  inNftables({ title: 'node ports on loopback and a network', ...nodePorts('127.0.0.0/8', '192.0.2.0/28', '::1/128') }),
  inNftables({ title: 'node ports on every address', ...nodePorts('0.0.0.0/0', '::/0') }),
  inNftables({ title: 'node ports on localhost', ...nodePorts('localhost') }),
  inNftables({ title: 'node ports on a part of loopback', ...nodePorts('127.0.0.1/32') }),
  inNftables({ title: 'node ports on words and a network', ...nodePorts('primary', 'localhost', '192.0.2.102/32') }),
  inNftables({ title: 'node ports on a network that contains loopback', ...nodePorts('126.0.0.0/7') }),
  inNftables({ title: 'node ports on the primary address', ...nodePorts('primary') }),
  inNftables({ title: 'node ports on loopback of IPv6', ...nodePorts('192.0.2.0/24', '::1/128') }),
  inNftables({ title: 'node ports on loopback and every address', ...nodePorts('127.0.0.0/8', '0.0.0.0/0', '::/0') }),
  inNftables({ title: 'node ports on all', ...nodePorts('all') }),
];
