import { versionByDefault } from '../../render/versions/version.ts';
import { policySchema } from './policy.ts';
import type { Schema } from './schema.ts';
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
  localhostNodePorts,
  masqueradeAll,
  masqueradeBit,
  nodePortAddresses,
  text,
} from './proxy.ts';

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

const nodeSelector = fields('A label selector: which nodes take this profile. Left out or {}: every node.', {
  matchLabels: labels('Labels that a node must have, with their values.'),
  matchExpressions: list('Further conditions; all must hold.', {
    ...fields('One condition.', {
      key: text('The label.', { format: 'label-key' }),
      operator: text('What is asked of the label.', { enum: ['In', 'NotIn', 'Exists', 'DoesNotExist'] }),
      values: list('Values for In and NotIn.', text('A label value.', { format: 'label-value' })),
    }),
    required: ['key', 'operator'],
  }),
});

const profile: Schema = {
  ...fields('Nodes that are configured alike. Fields are those of KubeProxyConfiguration where it has them.', {
    name: text('The name of the profile, and of its directory in the bundle.', { format: 'dns-subdomain' }),
    nodeSelector,
    kubeProxyVersion: text('The version of kube-proxy that the rules follow, from 1.28 to 1.37, in quotes.', {
      format: 'kube-proxy-version',
      default: versionByDefault,
    }),
    families: list('The families that these nodes have rules for.', text('A family.', { enum: ['ipv4', 'ipv6'] }), {
      minItems: 1,
      maxItems: 2,
      default: ['ipv4', 'ipv6'],
    }),
    featureGates: fields('Feature gates of kube-proxy, by name.', { AllowServiceExternalIPs: externalIPsGate }),
    mode: text('The proxy mode.', { enum: ['iptables', 'ipvs'], default: 'iptables', format: 'mode' }),
    iptables: fields('Options of mode iptables; those about masquerading hold in mode ipvs too.', {
      masqueradeBit,
      masqueradeAll,
      localhostNodePorts,
      randomFully: flag('Masquerade with --random-fully. Needs iptables 1.6.2 on the node.', { default: true }),
    }),
    ipvs: fields('Options of mode ipvs. In other modes they have no effect.', ipvsFields),
    detectLocalMode: text('How traffic of local pods is recognised.', {
      enum: detectLocalModes,
      default: 'ClusterCIDR',
    }),
    detectLocal,
    clusterCIDR,
    nodePortAddresses,
    conntrack,
    sysctls: {
      description: 'Further sysctls by key, from the list that sluice allows, such as net.ipv4.ip_forward.',
      type: 'object',
      additionalProperties: { description: 'The value.', type: ['string', 'integer'] },
    },
  }),
  required: ['name'],
};

const node: Schema = {
  ...fields('A node that no manifest names, or facts that its Node object lacks.', {
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

/** `sluice.yaml`. Printed as docs/schema/sluiceconfig.schema.json; the texts are what an editor shows. */
export const sluiceSchema: Schema = {
  description: 'The config of sluice: what manifests do not say about a cluster.',
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
      'The manifests name every Service and endpoint of the cluster. Otherwise a bundle made from them is partial.',
      {
        default: false,
      },
    ),
    serviceCIDRs: list(
      "The networks of ClusterIPs as the API server's --service-cluster-ip-range, at most one per family; the first is the cluster's primary family. Left out: those of the ServiceCIDR kubernetes, where it is in the input.",
      text('A CIDR.', { format: 'cidr' }),
      {
        minItems: 1,
        maxItems: 2,
        default: ['10.96.0.0/12'],
      },
    ),
    nodePortRange: text("The node ports, as the API server's --service-node-port-range.", {
      default: '30000-32767',
      format: 'port-range',
    }),
    nodes: list('Nodes that no manifest names.', node, { default: [] }),
    budgets: fields('What a node may cost at most; `sluice cost` fails past one.', {
      rules: integer('Rules of both families.', 1, 10_000_000),
      chains: integer('Chains of both families.', 1, 10_000_000),
      bytes: integer('Bytes that the tools read at the first load.', 1, 1_000_000_000),
      longestWalk: integer('Rules that the first packet of a connection is compared with.', 1, 10_000_000),
      loadSeconds: integer('Seconds that the first load takes with the slower backend, by the model.', 1, 86_400),
    }),
    policy: policySchema,
    profiles: list('How nodes are configured. A node takes the first profile whose nodeSelector matches it.', profile, {
      default: [],
    }),
  },
};

/** The schema as a document that editors read. */
export function printSluiceSchema(): string {
  const head = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: 'https://sluice.dev/schema/v1alpha1/sluiceconfig.schema.json',
    title: 'SluiceConfig',
  };
  return `${JSON.stringify({ ...head, ...sluiceSchema }, null, 2)}\n`;
}
