import { dualStack } from './dual-stack.ts';
import type { JsonObject } from '../../packages/renderer/src/render/model/kube.ts';
import type { Input, Question } from './cluster.ts';
import type { FieldRow } from './rows.ts';

/** The fields of a KubeProxyConfiguration that `fieldEffects` says are followed. */

const both = 'a | b';
const bothMasqueraded = 'masquerade a | masquerade b';
const proxy = (fields: JsonObject): Input => ({ proxy: fields });
const nodePort: Input = {
  service: { spec: { type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] } },
};
const toNodePort: Question = { from: 'outside', to: '192.0.2.11:30080/tcp' };
const toService: Question = { from: 'client', to: '10.96.0.10:80/tcp' };
const fromOutside: Question = { from: 'outside', to: '10.96.0.10:80/tcp' };

const notInOthers = 'a gate of mode nftables';

/** A sysctl of the node that a field sets, in all modes. */
const sysctl = (field: string, key: string, value: string | number | boolean, set: string, unset: string): FieldRow => {
  const [group = '', name = ''] = field.split('.');
  return {
    field: `KubeProxyConfiguration ${field}`,
    set: proxy({ [group]: { [name]: value } }),
    checks: [{ ask: { sysctl: key }, set, unset }],
  };
};

const notInIpvs = 'an option of mode ipvs';

export const proxyFields: readonly FieldRow[] = [
  {
    field: 'KubeProxyConfiguration featureGates.AllowServiceExternalIPs',
    given: {
      service: { spec: { externalIPs: ['198.51.100.77'] } },
      // Where no profile serves external IPs, Services have none, and no mode is asked.
      profiles: [
        {
          name: 'west',
          nodeSelector: { matchLabels: { 'topology.kubernetes.io/zone': 'west' } },
          featureGates: { AllowServiceExternalIPs: true },
        },
      ],
    },
    set: proxy({ featureGates: { AllowServiceExternalIPs: false } }),
    checks: [
      { ask: { from: 'outside', to: '198.51.100.77:80/tcp' }, set: 'pass', unset: bothMasqueraded },
      {
        ask: { from: 'client of node-2', to: '198.51.100.77:80/tcp' },
        set: bothMasqueraded,
        unset: bothMasqueraded,
      },
    ],
  },
  {
    field: 'KubeProxyConfiguration featureGates.KubeProxyNFTablesLocalhostNodePorts',
    given: {
      ...dualStack,
      service: {
        spec: {
          ...(nodePort.service?.['spec'] as JsonObject),
          clusterIPs: ['10.96.0.10', 'fd00:10:96::10'],
          ipFamilies: ['IPv4', 'IPv6'],
          ipFamilyPolicy: 'RequireDualStack',
        },
      },
    },
    unset: proxy({ iptables: { localhostNodePorts: false }, nodePortAddresses: ['primary', 'localhost'] }),
    set: proxy({
      iptables: { localhostNodePorts: false },
      nodePortAddresses: ['primary', 'localhost'],
      featureGates: { KubeProxyNFTablesLocalhostNodePorts: true },
    }),
    checks: [
      {
        ask: { from: 'node-1', to: '127.0.0.1:30080/tcp' },
        set: { iptables: 'pass', ipvs: 'pass', nftables: bothMasqueraded },
        unset: 'pass',
      },
      {
        ask: { from: 'node-1', to: '127.0.0.2:30080/udp' },
        set: 'pass',
        unset: 'pass',
      },
      {
        ask: { from: 'node-1', to: '[::1]:30080/tcp' },
        set: { iptables: 'pass', ipvs: 'pass', nftables: 'masquerade a' },
        unset: 'pass',
      },
      { ask: { from: 'outside', to: '[::1]:30080/tcp' }, set: 'pass', unset: 'pass' },
    ],
    differs: { iptables: notInOthers, ipvs: notInOthers },
  },
  {
    field: 'KubeProxyConfiguration iptables.masqueradeAll',
    set: proxy({ iptables: { masqueradeAll: true } }),
    checks: [
      {
        ask: toService,
        set: { iptables: bothMasqueraded, ipvs: bothMasqueraded, nftables: both },
        unset: both,
      },
    ],
    differs: { nftables: '`nftables.masqueradeAll` is its option' },
  },
  {
    field: 'KubeProxyConfiguration iptables.masqueradeBit',
    set: proxy({ iptables: { masqueradeBit: 17 } }),
    checks: [
      {
        ask: { mark: 'masquerade' },
        set: { iptables: '0x20000', ipvs: '0x20000', nftables: 'none' },
        unset: { iptables: '0x4000', ipvs: '0x4000', nftables: 'none' },
      },
    ],
    differs: { nftables: 'its table uses no mark' },
  },
  {
    field: 'KubeProxyConfiguration nftables.masqueradeAll',
    set: proxy({ nftables: { masqueradeAll: true } }),
    checks: [{ ask: toService, set: { iptables: both, ipvs: both, nftables: bothMasqueraded }, unset: both }],
    differs: { iptables: '`iptables.masqueradeAll` is its option', ipvs: '`iptables.masqueradeAll` is its option' },
  },
  {
    field: 'KubeProxyConfiguration iptables.localhostNodePorts',
    given: nodePort,
    set: proxy({ iptables: { localhostNodePorts: false } }),
    checks: [
      {
        ask: { from: 'node-1', to: '127.0.0.1:30080/tcp' },
        set: 'pass',
        unset: { iptables: bothMasqueraded, ipvs: 'pass', nftables: 'pass' },
      },
    ],
    differs: {
      ipvs: 'kube-proxy has no node ports on loopback addresses in this mode',
      nftables: 'kube-proxy has no node ports on loopback addresses in this mode',
    },
  },
  {
    field: 'KubeProxyConfiguration clusterCIDR',
    set: proxy({ clusterCIDR: '10.99.0.0/16' }),
    checks: [
      { ask: toService, set: bothMasqueraded, unset: both },
      { ask: fromOutside, set: bothMasqueraded, unset: bothMasqueraded },
    ],
  },
  {
    field: 'KubeProxyConfiguration detectLocalMode',
    set: proxy({ detectLocalMode: 'NodeCIDR' }),
    unset: proxy({ clusterCIDR: '10.99.0.0/16' }),
    checks: [{ ask: toService, set: both, unset: bothMasqueraded }],
  },
  {
    field: 'KubeProxyConfiguration detectLocal.bridgeInterface',
    given: proxy({ detectLocalMode: 'BridgeInterface' }),
    set: proxy({ detectLocal: { bridgeInterface: 'pod0' } }),
    unset: proxy({ detectLocal: { bridgeInterface: 'cbr0' } }),
    checks: [
      { ask: toService, set: both, unset: bothMasqueraded },
      { ask: fromOutside, set: bothMasqueraded, unset: bothMasqueraded },
    ],
  },
  {
    field: 'KubeProxyConfiguration detectLocal.interfaceNamePrefix',
    given: proxy({ detectLocalMode: 'InterfaceNamePrefix' }),
    set: proxy({ detectLocal: { interfaceNamePrefix: 'pod' } }),
    unset: proxy({ detectLocal: { interfaceNamePrefix: 'veth' } }),
    checks: [
      { ask: toService, set: both, unset: bothMasqueraded },
      { ask: fromOutside, set: bothMasqueraded, unset: bothMasqueraded },
    ],
  },
  {
    field: 'KubeProxyConfiguration nodePortAddresses',
    given: nodePort,
    set: proxy({ nodePortAddresses: ['198.18.0.0/15'] }),
    checks: [{ ask: toNodePort, set: 'pass', unset: bothMasqueraded }],
  },
  {
    field: 'KubeProxyConfiguration ipvs.scheduler',
    set: proxy({ ipvs: { scheduler: 'lc' } }),
    checks: [
      {
        ask: { scheduler: '10.96.0.10:80/tcp' },
        set: { iptables: 'random', ipvs: 'lc', nftables: 'random' },
        unset: { iptables: 'random', ipvs: 'rr', nftables: 'random' },
      },
    ],
    differs: { iptables: notInIpvs, nftables: notInIpvs },
  },
  {
    field: 'KubeProxyConfiguration ipvs.strictARP',
    set: proxy({ ipvs: { strictARP: true } }),
    checks: [
      {
        ask: { sysctl: 'net.ipv4.conf.all.arp_ignore' },
        set: { iptables: 'as it was', ipvs: '1', nftables: 'as it was' },
        unset: 'as it was',
      },
    ],
    differs: { iptables: notInIpvs, nftables: notInIpvs },
  },
  ...(['tcpTimeout', 'tcpFinTimeout', 'udpTimeout'] as const).map(
    (name, index): FieldRow => ({
      field: `KubeProxyConfiguration ipvs.${name}`,
      set: proxy({ ipvs: { [name]: '77s' } }),
      checks: [
        {
          ask: { ipvs: 'timeouts' },
          set: { iptables: 'none', ipvs: ['77 0 0', '0 77 0', '0 0 77'][index] as string, nftables: 'none' },
          unset: 'none',
        },
      ],
      differs: { iptables: notInIpvs, nftables: notInIpvs },
    }),
  ),
  {
    field: 'KubeProxyConfiguration ipvs.excludeCIDRs',
    set: {},
    checks: [],
    cells: {
      iptables: { differs: notInIpvs },
      ipvs: {
        file: 'packages/applier/src/ports/ipvs/plan.test.ts',
        title: 'neither changes nor removes excluded virtual servers',
      },
      nftables: { differs: notInIpvs },
    },
  },
  sysctl('conntrack.maxPerCore', 'net.netfilter.nf_conntrack_max', 100_000, '400000', '131072'),
  sysctl('conntrack.min', 'net.netfilter.nf_conntrack_max', 500_000, '500000', '131072'),
  sysctl(
    'conntrack.tcpEstablishedTimeout',
    'net.netfilter.nf_conntrack_tcp_timeout_established',
    '1h0m0s',
    '3600',
    '86400',
  ),
  sysctl('conntrack.tcpCloseWaitTimeout', 'net.netfilter.nf_conntrack_tcp_timeout_close_wait', '5m0s', '300', '3600'),
  sysctl('conntrack.tcpBeLiberal', 'net.netfilter.nf_conntrack_tcp_be_liberal', true, '1', 'as it was'),
  sysctl('conntrack.udpTimeout', 'net.netfilter.nf_conntrack_udp_timeout', '9s', '9', 'as it was'),
  sysctl('conntrack.udpStreamTimeout', 'net.netfilter.nf_conntrack_udp_timeout_stream', '99s', '99', 'as it was'),
];
