/** How much a finding weighs. `error` fails the command, `warning` does so with --strict, `off` is not looked for. */
export const policyLevels = ['error', 'warning', 'note', 'off'] as const;
export type PolicyLevel = (typeof policyLevels)[number];
/** The level of something that was found. */
export type FindingLevel = Exclude<PolicyLevel, 'off'>;

/** What a rule is about. */
export interface PolicyRule {
  /** Unless `policy.levels` says otherwise. */
  readonly level: PolicyLevel;
  /** One line: what must not be. */
  readonly title: string;
  /** Why anybody should care. */
  readonly reason: string;
  /** Looked for only with `--base`: it is about a change. */
  readonly isChange: boolean;
}

const state = (level: PolicyLevel, title: string, reason: string): PolicyRule => ({
  level,
  title,
  reason,
  isChange: false,
});
const change = (level: PolicyLevel, title: string, reason: string): PolicyRule => ({
  level,
  title,
  reason,
  isChange: true,
});

/** Every rule there is. Codes are public contract, like those of problems; docs/policy.md lists them from here. */
export const policyRules = {
  EXTERNAL_IP: state(
    'error',
    'an external IP lies outside of `policy.externalIPs`',
    'Whoever may write a Service can take traffic for any address that the cluster talks to (CVE-2020-8554)',
  ),
  ENDPOINT_RANGE: state(
    'warning',
    'an endpoint lies outside of the pod networks and `policy.endpointRanges`',
    'Endpoints by hand can lead to places that the author of the Service could not reach (CVE-2021-25740)',
  ),
  ENDPOINT_LOCAL: state(
    'error',
    'an endpoint or address of a Service is loopback, link-local or multicast',
    "Such an address means another thing on every node, such as the node's own daemons or the cloud's metadata (CVE-2021-25737)",
  ),
  ROUTE_LOCALNET: state(
    'note',
    'route_localnet is on',
    'Neighbours could reach what listens on 127.0.0.1 of a node, if the rule against it were ever missing (CVE-2020-8558)',
  ),
  ADDRESS_TAKEN: state(
    'error',
    'an address of a Service is one of a node, a gateway, the API, the DNS, another Service or `policy.protected`',
    'Traffic to the owner of that address would go to the endpoints of the Service',
  ),
  RANGES_ONE_FAMILY: state(
    'error',
    'a load balancer has source ranges in one family and is open to all in the other',
    'Who is kept out by IPv4 comes in by IPv6',
  ),
  SINGLE_NODE: state('note', 'all endpoints of a port are on one node', 'The port is gone when that node is'),
  SINGLE_ZONE: state('note', 'all endpoints of a port are in one zone', 'The port is gone when that zone is'),
  LAST_ENDPOINT: change('error', 'a port of a Service loses its last endpoint', 'Its traffic is refused from then on'),
  SERVICE_REMOVED: change(
    'warning',
    'a Service with endpoints, or a port of one, goes away',
    'Clients that still use it fail',
  ),
  ENDPOINTS_CHANGED: change(
    'warning',
    'more than `policy.endpointsChangedPercent` of all endpoints change',
    'A change of this size is more often a broken input than a wish',
  ),
  NODES_CHANGED: change(
    'warning',
    'more than `policy.nodesChangedPercent` of all nodes get other rules',
    'What goes wrong goes wrong on all of them; waves keep it small',
  ),
  NODE_PORT_OPENED: change(
    'warning',
    'a node port opens, or all of them on more addresses',
    'It is open on the addresses of every node of the profile, to everybody who can reach one',
  ),
  AFFINITY_CHANGED: change('warning', 'session affinity changes', 'Clients lose the endpoint that knows them'),
  TRAFFIC_POLICY_CHANGED: change(
    'warning',
    'internalTrafficPolicy or externalTrafficPolicy changes',
    'Who answers changes, and whether endpoints see the address of the client',
  ),
  RANGES_WIDENED: change(
    'error',
    'source ranges of a load balancer are widened, or dropped in a family',
    'Addresses that were kept out come in',
  ),
  MODE_CHANGED: change(
    'warning',
    'a profile changes its mode',
    'Connections that stand are cut when the kernel handles them otherwise',
  ),
  RULE_GROWTH: change(
    'warning',
    'the rules of a profile grow by more than `policy.ruleGrowthPercent`',
    'Every rule costs time at each load and at each first packet',
  ),
  SYSCTL_CHANGED: change(
    'warning',
    'a sysctl changes',
    'It holds for the whole node, not only for traffic of Services',
  ),
  WAIVER_EXPIRED: state(
    'error',
    'a waiver has expired',
    'Nobody has looked at the exception since the day it was meant to end',
  ),
  WAIVER_UNUSED: state(
    'note',
    'a waiver fits nothing that was found',
    'An exception that is not needed hides the next finding',
  ),
} as const satisfies Record<string, PolicyRule>;

export type PolicyCode = keyof typeof policyRules;
export const policyCodes = Object.keys(policyRules) as readonly PolicyCode[];
