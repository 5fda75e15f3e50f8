import { fields, integer, text } from './proxy.ts';
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
export const policySchema: Schema = fields(
  'Settings of `sluice policy`; /usr/share/doc/sluice/policy.md lists the rules.',
  {
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
  },
);
