import { affinityClientsDefault, modes } from '@sluice/netfilter';
import { versionByDefault } from '../../render/model/version.ts';
import {
  clusterCIDR,
  conntrack,
  detectLocal,
  detectLocalModes,
  externalIPsGate,
  fields,
  flag,
  integer,
  ipvsFields,
  localhostGate,
  localhostNodePorts,
  masqueradeAll,
  masqueradeBit,
  nftablesFields,
  nodePortAddresses,
  text,
} from './proxy.ts';
import type { Schema } from './schema.ts';

/**
 * The rules of `sluice policy`, in the order of review/policy/catalogue.ts. Duplicated because `load` must not import `review`; a test keeps
 * the two lists equal.
 */
export const policyCodesOfSchema = [
  'EXTERNAL_IP',
  'EXTERNAL_IP_DEPRECATED',
  'MODE_ENDS',
  'ENDPOINT_RANGE',
  'ENDPOINT_LOCAL',
  'ROUTE_LOCALNET',
  'ADDRESS_TAKEN',
  'FRONTEND_OVERLAP',
  'ADDRESS_SHARED',
  'LOCALHOST_NODE_PORTS',
  'RANGES_ONE_FAMILY',
  'SINGLE_NODE',
  'SINGLE_ZONE',
  'SURVIVES_NODE',
  'SURVIVES_ZONE',
  'LAST_ENDPOINT',
  'SERVICE_REMOVED',
  'ENDPOINTS_CHANGED',
  'NODES_CHANGED',
  'NODE_PORT_OPENED',
  'AFFINITY_CHANGED',
  'TRAFFIC_POLICY_CHANGED',
  'RANGES_WIDENED',
  'MODE_CHANGED',
  'RULE_GROWTH',
  'SYSCTL_CHANGED',
  'ANNOTATION_WITHOUT_EFFECT',
  'TOPOLOGY_KEYS',
  'ENDPOINT_NODE_NOT_READY',
  'WAIVER_EXPIRED',
  'WAIVER_UNUSED',
] as const;

const level = text(
  'The level of a finding: error fails the command, warning fails it with --strict, off disables the rule.',
  {
    enum: ['error', 'warning', 'note', 'off'],
  },
);

const cidrs = (description: string): Schema => ({
  description,
  type: 'array',
  items: text('A CIDR.', { format: 'cidr' }),
  default: [],
});

const percent = (description: string, byDefault: number): Schema =>
  integer(description, 0, 1_000_000, { default: byDefault });

const waiver: Schema = {
  ...fields('One exception.', {
    rule: text('The code of the rule.', { enum: policyCodesOfSchema }),
    subject: text('The subject, as in findings: shop/web, profile default, bundle. Default: every subject.'),
    reason: text('Why the exception is acceptable.', { pattern: '\\S' }),
    expires: text('The last day of the waiver.', { format: 'date', examples: ['2026-12-31'] }),
  }),
  required: ['rule', 'reason', 'expires'],
};

/** `policy` of sluice.yaml: the settings of `sluice policy`. */
const policySchema: Schema = fields('Settings of `sluice policy`; /usr/share/doc/sluice/policy.md lists the rules.', {
  levels: {
    description: 'Levels of rules that differ from the defaults.',
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(policyCodesOfSchema.map((code) => [code, level])),
  },
  externalIPs: cidrs('Allowed networks of external IPs. Empty: every external IP is a finding.'),
  endpointRanges: cidrs('Allowed networks of endpoints, besides the pod networks.'),
  protected: {
    description: 'Addresses that Services must not use, such as routers and resolvers outside of the cluster.',
    type: 'array',
    items: text('An IP address.', { format: 'ip-address' }),
    default: [],
  },
  endpointsChangedPercent: percent('The percentage of endpoints that one change may affect.', 50),
  nodesChangedPercent: percent('The percentage of nodes whose rules one change may modify.', 100),
  ruleGrowthPercent: percent('By how many percent one change may grow the rules of a profile.', 50),
  survives: fields('What SURVIVES_NODE and SURVIVES_ZONE require; both are off until `levels` turns them on.', {
    services: {
      description: 'The Services that must survive: shop/web, or shop/* for a namespace. Default: all.',
      type: 'array',
      items: text('A Service, or all of a namespace.', {
        pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?/([*]|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$',
      }),
      examples: [['shop/*', 'kube-system/kube-dns']],
    },
    sharePercent: integer(
      'The percentage of the connections to a port that one endpoint may get after a failure; 100: any.',
      1,
      100,
      { default: 100 },
    ),
  }),
  waivers: { description: 'Accepted exceptions.', type: 'array', items: waiver, default: [] },
});

const list = (description: string, items: Schema, more: Partial<Schema> = {}): Schema => ({
  description,
  type: 'array',
  items,
  ...more,
});
const labels = (description: string): Schema => ({
  description,
  type: 'object',
  propertyNames: text('A label key.', { format: 'label-key' }),
  additionalProperties: text('The value of the label.', { format: 'label-value' }),
});

const nodeSelector = fields('A label selector for the nodes of this profile. Default, or {}: every node.', {
  matchLabels: labels('Labels that a node must have, with their values.'),
  matchExpressions: list('Further conditions; all must hold.', {
    ...fields('One condition.', {
      key: text('The label.', { format: 'label-key' }),
      operator: text('The condition on the label.', { enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] }),
      values: list('Values for In and NotIn.', text('A label value.', { format: 'label-value' })),
    }),
    required: ['key', 'operator'],
  }),
});

const profile: Schema = {
  ...fields('Nodes with the same configuration. Fields are those of KubeProxyConfiguration where they exist there.', {
    name: text('The name of the profile, and of its directory in the bundle.', { format: 'dns-subdomain' }),
    nodeSelector,
    kubeProxyVersion: text('The version of kube-proxy to be compatible with, from 1.28 to 1.38, in quotes.', {
      format: 'kube-proxy-version',
      default: versionByDefault,
    }),
    families: list('The IP families of these nodes.', text('A family.', { enum: ['ipv4', 'ipv6'] }), {
      minItems: 1,
      maxItems: 2,
      default: ['ipv4', 'ipv6'],
    }),
    featureGates: fields('Feature gates of kube-proxy, by name.', {
      AllowServiceExternalIPs: externalIPsGate,
      KubeProxyNFTablesLocalhostNodePorts: localhostGate,
    }),
    mode: text('The proxy mode.', { enum: [...modes], default: 'iptables', format: 'mode' }),
    iptables: fields('Options of mode iptables; those about masquerading apply to mode ipvs too.', {
      masqueradeBit,
      masqueradeAll,
      localhostNodePorts,
      randomFully: flag('Masquerade with --random-fully. Requires iptables 1.6.2 on the node.', { default: true }),
    }),
    ipvs: fields('Options of mode ipvs. In other modes they have no effect.', ipvsFields),
    nftables: fields('Options of mode nftables. In other modes they have no effect.', {
      ...nftablesFields,
      tcpReset: flag(
        'Refuse TCP connections with a reset where a Service has no endpoint. The kernel limits the rate of ICMP errors, with which it refuses them else, so that some clients wait for their time-out.',
        { default: false },
      ),
      affinityClients: integer(
        'How many clients of Services with session affinity are remembered, in each family, for all Services together. A further one gets no endpoint.',
        1024,
        16_777_216,
        { default: affinityClientsDefault },
      ),
      endpointCounters: flag(
        'Count new connections of each endpoint in the kernel. It costs memory, and changes of endpoints read counters, in at most 0.2 % of a processor.',
        { default: false },
      ),
    }),
    detectLocalMode: text('How traffic from local pods is detected.', {
      enum: detectLocalModes,
      default: 'ClusterCIDR',
    }),
    detectLocal,
    clusterCIDR,
    nodePortAddresses,
    conntrack,
    sysctls: {
      description:
        'Further sysctls by key, such as net.netfilter.nf_conntrack_tcp_timeout_fin_wait: those of a closed list.',
      type: 'object',
      additionalProperties: { description: 'The value.', type: ['string', 'integer'] },
    },
  }),
  required: ['name'],
};

const node: Schema = {
  ...fields('A node without a manifest, or facts that are missing in its Node object.', {
    name: text('The name of the node.', { format: 'dns-subdomain' }),
    labels: labels('The labels of the node, for nodeSelector and for topology.kubernetes.io/zone.'),
    addresses: list('Addresses of the node, its own first.', text('An IP address.', { format: 'ip-address' })),
    podCIDRs: list('The pod networks of the node, one per family.', text('A CIDR.', { format: 'cidr' }), {
      maxItems: 2,
    }),
    cores: integer('CPU cores, for conntrack.maxPerCore.', 1, 8192),
  }),
  required: ['name'],
};

/** The schema of `sluice.yaml`. Printed as docs/schema/sluiceconfig.schema.json; editors show the descriptions. */
export const sluiceSchema: Schema = {
  description: 'The config of sluice: facts about a cluster that are not in its manifests.',
  type: 'object',
  required: ['apiVersion', 'kind'],
  additionalProperties: false,
  properties: {
    apiVersion: text('The version of this format.', { const: 'sluice.dev/v1alpha1' }),
    kind: text('The kind.', { const: 'SluiceConfig' }),
    clusterName: text('The name of the cluster. A node refuses a bundle of another cluster.', {
      default: 'kubernetes',
      format: 'cluster-name',
      pattern: '^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$',
    }),
    complete: flag(
      'The manifests contain every Service and endpoint of the cluster. Otherwise a bundle made from them is partial.',
      {
        default: false,
      },
    ),
    serviceCIDRs: list(
      "The networks of ClusterIPs as the API server's --service-cluster-ip-range, at most one per family; the first is the cluster's primary family. Default: those of the ServiceCIDR kubernetes, if it is in the input.",
      text('A CIDR.', { format: 'cidr' }),
      {
        minItems: 1,
        maxItems: 2,
        default: ['10.96.0.0/12'],
      },
    ),
    nodePortRange: text("The range of node ports, as the API server's --service-node-port-range.", {
      default: '30000-32767',
      format: 'port-range',
    }),
    nodes: list('Nodes without a manifest.', node, { default: [] }),
    budgets: fields('The maximum cost of a node; `sluice cost` fails above it.', {
      rules: integer('Rules of both families.', 1, 10_000_000),
      chains: integer('Chains of both families.', 1, 10_000_000),
      bytes: integer('Bytes of the first load.', 1, 1_000_000_000),
      longestWalk: integer('Rules that the first packet of a connection traverses.', 1, 10_000_000),
      loadSeconds: integer('Estimated seconds of the first load with the slower backend.', 1, 86_400),
    }),
    policy: policySchema,
    profiles: list(
      'The configuration of nodes. A node uses the first profile whose nodeSelector matches it.',
      profile,
      {
        default: [],
      },
    ),
  },
};

/** Prints the schema as JSON Schema for editors. */
export function printSluiceSchema(): string {
  const head = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: 'https://sluice.dev/schema/v1alpha1/sluiceconfig.schema.json',
    title: 'SluiceConfig',
  };
  return `${JSON.stringify({ ...head, ...sluiceSchema }, null, 2)}\n`;
}
