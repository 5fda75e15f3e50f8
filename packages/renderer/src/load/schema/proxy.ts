import { schedulers } from '@sluice/bundle';
import type { Schema } from './schema.ts';

/** The field names, types and meanings that KubeProxyConfiguration and a profile have in common. */

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
  'Masquerade all traffic to ClusterIPs, not only what comes from outside the pod network.',
  {
    default: false,
  },
);
export const localhostNodePorts = flag('Node ports also answer on 127.0.0.1 (IPv4 only; needs route_localnet).', {
  default: true,
});

export const detectLocalModes = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix'] as const;

export const detectLocal = fields('What the interface modes of detectLocalMode look for.', {
  bridgeInterface: text('The bridge that pods of the node are attached to. Needed by mode BridgeInterface.', {
    default: '',
    format: 'interface',
  }),
  interfaceNamePrefix: text('How names of pod interfaces begin. Needed by mode InterfaceNamePrefix.', {
    default: '',
    format: 'interface-prefix',
  }),
});

export const clusterCIDR = text('The pod network: one CIDR, or one of each family with a comma between them.', {
  default: '',
  format: 'cidr-pair',
  examples: ['10.244.0.0/16', '10.244.0.0/16,fd00:10:244::/56'],
});

export const nodePortAddresses: Schema = {
  description:
    "Where node ports answer: networks of node addresses, primary for the Node's own address, localhost for loopback addresses, all for every address, and any of these together. Empty: every address.",
  type: 'array',
  default: [],
  items: text('A CIDR, primary, localhost or all.', { format: 'node-port-address' }),
};

export const externalIPsGate = flag('Whether spec.externalIPs of Services are served; false: no rule names them.', {
  default: true,
});

const none = { default: '0s' } as const;

export const schedulerText =
  'How the kernel chooses an endpoint, for Services without the annotation sluice.dev/scheduler.';

/** The options of mode ipvs that both files have. */
export const ipvsFields = {
  scheduler: text(schedulerText, {
    enum: schedulers,
    default: 'rr',
  }),
  excludeCIDRs: {
    description: 'Networks whose virtual servers and addresses belong to somebody else, such as keepalived.',
    type: 'array',
    default: [],
    items: text('A CIDR.', { format: 'cidr' }),
  },
  strictARP: flag('Answer ARP only for addresses of the interface that was asked (arp_ignore 1, arp_announce 2).', {
    default: false,
  }),
  tcpTimeout: duration('How long IPVS remembers an idle TCP connection. 0s leaves it alone.', none),
  tcpFinTimeout: duration('How long IPVS remembers a TCP connection after a FIN. 0s leaves it alone.', none),
  udpTimeout: duration('How long IPVS remembers a UDP flow. 0s leaves it alone.', none),
} as const satisfies Readonly<Record<string, Schema>>;

export const conntrack = fields('The connection table of the node.', {
  maxPerCore: integer('Connections per CPU core. 0 leaves the limit alone.', 0, int32Max, { default: 32768 }),
  min: integer('The least number of connections, whatever maxPerCore gives.', 0, int32Max, { default: 131072 }),
  tcpEstablishedTimeout: duration('How long an idle TCP connection is remembered. 0s leaves it alone.', {
    default: '24h0m0s',
  }),
  tcpCloseWaitTimeout: duration('How long a TCP connection in CLOSE_WAIT is remembered. 0s leaves it alone.', {
    default: '1h0m0s',
  }),
  tcpBeLiberal: flag('Accept packets outside the TCP window; the rule that drops INVALID packets is left out.', {
    default: false,
  }),
  udpTimeout: duration('How long an unanswered UDP flow is remembered. 0s leaves it alone.', { default: '0s' }),
  udpStreamTimeout: duration('How long an answered UDP flow is remembered. 0s leaves it alone.', { default: '0s' }),
});
