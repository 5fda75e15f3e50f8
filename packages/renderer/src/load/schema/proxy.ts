import { schedulers } from '@sluice/netfilter';
import type { Schema } from './schema.ts';

/** The fields that KubeProxyConfiguration and a profile share. */

const int32Max = 2_147_483_647;

export const text = (description: string, more: Partial<Schema> = {}): Schema => ({
  description,
  type: 'string',
  ...more,
});
export const flag = (description: string, more: Partial<Schema> = {}): Schema => ({
  description,
  type: 'boolean',
  ...more,
});
export const integer = (description: string, minimum: number, maximum: number, more: Partial<Schema> = {}): Schema => ({
  description,
  type: 'integer',
  minimum,
  maximum,
  ...more,
});
/** A mapping with exactly these fields. */
export const fields = (description: string, properties: Readonly<Record<string, Schema>>): Schema => ({
  description,
  type: 'object',
  properties,
  additionalProperties: false,
});
export const duration = (description: string, more: Partial<Schema> = {}): Schema =>
  text(`${description} A duration as Go writes it, such as 24h0m0s.`, { format: 'go-duration', ...more });

export const masqueradeBit = integer('The bit of the packet mark that means "masquerade this".', 0, 31, {
  default: 14,
});
export const masqueradeAll = flag(
  'Masquerade all traffic to ClusterIPs, not only traffic from outside the pod network.',
  {
    default: false,
  },
);
/** The options of mode nftables that both files have. */
export const nftablesFields = { masqueradeAll } as const satisfies Readonly<Record<string, Schema>>;

export const localhostNodePorts = flag('Serve node ports on 127.0.0.1 as well (IPv4 only; needs route_localnet).', {
  default: true,
});

export const detectLocalModes = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const;

export const detectLocal = fields('Settings of the interface modes of detectLocalMode.', {
  bridgeInterface: text('The bridge that pods of the node are attached to. Required by mode BridgeInterface.', {
    default: '',
    format: 'interface',
  }),
  interfaceNamePrefix: text('The prefix of the names of pod interfaces. Required by mode InterfaceNamePrefix.', {
    default: '',
    format: 'interface-prefix',
  }),
});

export const clusterCIDR = text('The pod network: one CIDR, or one of each family separated by a comma.', {
  default: '',
  format: 'cidr-pair',
  examples: ['10.244.0.0/16', '10.244.0.0/16,fd00:10:244::/56'],
});

export const nodePortAddresses: Schema = {
  description:
    "The addresses of node ports: networks of node addresses, primary (the Node's own address), localhost (loopback addresses), all (every address), or a combination. Empty: every address; in mode nftables primary.",
  type: 'array',
  default: [],
  items: text('A CIDR, primary, localhost or all.', { format: 'node-port-address' }),
};

export const externalIPsGate = flag(
  'Whether spec.externalIPs of Services are served; false: there are no rules for them.',
  {
    default: true,
  },
);

export const localhostGate = flag(
  'Mode nftables: whether node ports on loopback addresses are refused, or served on 127.0.0.1 where a CIDR of nodePortAddresses other than a whole family contains it. Default: by kubeProxyVersion, true from 1.38 on.',
  { examples: [true] },
);

const none = { default: '0s' } as const;

export const schedulerText = 'The IPVS scheduler, for Services without the annotation sluice.dev/scheduler.';

/** The options of mode ipvs that both files have. */
export const ipvsFields = {
  scheduler: text(schedulerText, {
    enum: schedulers,
    default: 'rr',
  }),
  excludeCIDRs: {
    description: 'Networks whose virtual servers and addresses are managed by another program, such as keepalived.',
    type: 'array',
    default: [],
    items: text('A CIDR.', { format: 'cidr' }),
  },
  strictARP: flag('Answer ARP requests only for addresses of the receiving interface (arp_ignore 1, arp_announce 2).', {
    default: false,
  }),
  tcpTimeout: duration('The IPVS timeout of idle TCP connections. 0s keeps the value of the kernel.', none),
  tcpFinTimeout: duration('The IPVS timeout of TCP connections after a FIN. 0s keeps the value of the kernel.', none),
  udpTimeout: duration('The IPVS timeout of UDP flows. 0s keeps the value of the kernel.', none),
} as const satisfies Readonly<Record<string, Schema>>;

export const conntrack = fields('Connection tracking of the node.', {
  maxPerCore: integer('The maximum number of connections per CPU core. 0 keeps the limit of the kernel.', 0, int32Max, {
    default: 32768,
  }),
  min: integer('The minimum of the limit, regardless of maxPerCore.', 0, int32Max, { default: 131072 }),
  tcpEstablishedTimeout: duration('The timeout of idle TCP connections. 0s keeps the value of the kernel.', {
    default: '24h0m0s',
  }),
  tcpCloseWaitTimeout: duration('The timeout of TCP connections in CLOSE_WAIT. 0s keeps the value of the kernel.', {
    default: '1h0m0s',
  }),
  tcpBeLiberal: flag('Accept packets outside the TCP window; the rule that drops INVALID packets is left out.', {
    default: false,
  }),
  udpTimeout: duration('The timeout of unanswered UDP flows. 0s keeps the value of the kernel.', { default: '0s' }),
  udpStreamTimeout: duration('The timeout of answered UDP flows. 0s keeps the value of the kernel.', { default: '0s' }),
});
