import { fields, integer, text } from './proxy.ts';
import type { Schema } from './schema.ts';

/**
 * The rules of `sluice policy`, in the order of review/policy/catalogue.ts. They stand here once more because this place may not import
 * the review; a test holds the two lists together.
 */
export const policyCodesOfSchema = [
  'EXTERNAL_IP',
  'ENDPOINT_RANGE',
  'ENDPOINT_LOCAL',
  'ROUTE_LOCALNET',
  'ADDRESS_TAKEN',
  'RANGES_ONE_FAMILY',
  'SINGLE_NODE',
  'SINGLE_ZONE',
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
  'WAIVER_EXPIRED',
  'WAIVER_UNUSED',
] as const;

const level = text(
  'What a finding does: error fails the command, warning does so with --strict, off is not looked for.',
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
    subject: text('What it is for, as findings name it: shop/web, profile default, bundle. Left out: everything.'),
    reason: text('Why it may be so, for whoever reads it later.', { pattern: '\\S' }),
    expires: text('The last day on which it holds.', { format: 'date', examples: ['2026-12-31'] }),
  }),
  required: ['rule', 'reason', 'expires'],
};

/** `policy` of sluice.yaml: what `sluice policy` lets through. */
export const policySchema: Schema = fields(
  'What `sluice policy` lets through; /usr/share/doc/sluice/policy.md lists the rules.',
  {
    levels: {
      description: 'The levels of rules that should not have their own.',
      type: 'object',
      additionalProperties: false,
      properties: Object.fromEntries(policyCodesOfSchema.map((code) => [code, level])),
    },
    externalIPs: cidrs('Networks in which external IPs may lie. None: every external IP is a finding.'),
    endpointRanges: cidrs('Networks besides those of pods in which endpoints may lie.'),
    protected: {
      description: 'Addresses that no Service may have, such as routers and resolvers outside of the cluster.',
      type: 'array',
      items: text('An IP address.', { format: 'ip-address' }),
      default: [],
    },
    endpointsChangedPercent: percent('How many of all endpoints one change may touch.', 50),
    nodesChangedPercent: percent('How many of all nodes one change may give other rules.', 100),
    ruleGrowthPercent: percent('How much the rules of a profile may grow in one change.', 50),
    waivers: { description: 'Exceptions that somebody answers for.', type: 'array', items: waiver, default: [] },
  },
);
