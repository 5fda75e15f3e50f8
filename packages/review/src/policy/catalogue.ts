import { externalIPsEnd, modeFacts } from '@sluice/netfilter';

/** Levels of rules: `error` fails the command, `warning` fails it with --strict, `off` disables a rule. */
const policyLevels = ['error', 'warning', 'note', 'off'] as const;
export type PolicyLevel = (typeof policyLevels)[number];
/** The level of a finding. */
export type FindingLevel = Exclude<PolicyLevel, 'off'>;

/** A rule of the policy. */
interface PolicyRule {
  /** The default level; `policy.levels` overrides it. */
  readonly level: PolicyLevel;
  /** One line: the forbidden state or change. */
  readonly title: string;
  /** The risk. */
  readonly reason: string;
  /** What the rule reads: a bundle; a change to it, with `--base` only; or objects that were rendered, with `-f` only. */
  readonly about: PolicySubject;
}

export type PolicySubject = 'bundle' | 'change' | 'input';

const about =
  (subject: PolicySubject) =>
  (level: PolicyLevel, title: string, reason: string): PolicyRule => ({ level, title, reason, about: subject });
const state = about('bundle');
const change = about('change');
const input = about('input');

/** All rules. Codes are public contract, like those of problems; docs/policy.md is generated from this table. */
export const policyRules = {
  EXTERNAL_IP: state(
    'error',
    'an external IP lies outside of `policy.externalIPs`',
    'A user who may create Services can intercept traffic to any address that the cluster talks to (CVE-2020-8554)',
  ),
  EXTERNAL_IP_DEPRECATED: state(
    'note',
    'a Service has an external IP, and its nodes serve it',
    `Kubernetes has deprecated externalIPs in 1.36 (KEP-5707); they are ${externalIPsEnd}`,
  ),
  MODE_ENDS: state(
    'note',
    'a profile is in mode ipvs',
    `Mode ipvs of kube-proxy is deprecated since Kubernetes 1.35, ${modeFacts.ipvs.ends}`,
  ),
  ENDPOINT_RANGE: state(
    'warning',
    'an endpoint lies outside of the pod networks and `policy.endpointRanges`',
    'Manually created endpoints can lead to hosts that the author of the Service cannot reach directly (CVE-2021-25740)',
  ),
  ENDPOINT_LOCAL: state(
    'error',
    'an endpoint or address of a Service is loopback, link-local or multicast',
    "Such an address leads to a different host on every node, such as the node's own daemons or the cloud's metadata (CVE-2021-25737)",
  ),
  ROUTE_LOCALNET: state(
    'note',
    'route_localnet is on',
    'Without the rule against it, other hosts could reach daemons on 127.0.0.1 of a node (CVE-2020-8558)',
  ),
  ADDRESS_TAKEN: state(
    'error',
    'an address of a Service is one of a node, a gateway, the API, the DNS, another Service or `policy.protected`',
    'Traffic to the owner of that address would go to the endpoints of the Service',
  ),
  FRONTEND_OVERLAP: state(
    'error',
    'two Services have one external or load-balancer address with the same port and protocol, or one node port',
    'Only one of them gets the traffic, and which one may differ between nodes: two changes that were merged can cause it',
  ),
  ADDRESS_SHARED: state(
    'note',
    'two Services have one external or load-balancer address with different ports',
    'What announces or releases the address for one Service does so for the other',
  ),
  LOCALHOST_NODE_PORTS: state(
    'note',
    'a profile in mode nftables or ipvs has node ports, which do not answer on 127.0.0.1 or ::1',
    'Clients on the node that use such an address, like the container runtime with a registry, cannot connect',
  ),
  RANGES_ONE_FAMILY: state(
    'error',
    'a load balancer has source ranges in one family and is open to all in the other',
    'Sources that are blocked in one family can connect in the other',
  ),
  SINGLE_NODE: state('note', 'all endpoints of a port are on one node', 'The port is unavailable when that node fails'),
  SINGLE_ZONE: state('note', 'all endpoints of a port are in one zone', 'The port is unavailable when that zone fails'),
  SURVIVES_NODE: state(
    'off',
    'a port of a Service in `policy.survives.services` has no endpoint, or loses its last one, or its last answer to clients from outside, when one node fails; or one endpoint comes to get more than `policy.survives.sharePercent` of its connections',
    'Nodes fail, and are drained for every upgrade: what must stay up needs endpoints on others that can carry the load',
  ),
  SURVIVES_ZONE: state(
    'off',
    'the same when one zone fails with all its nodes',
    'Zones fail as a whole: what must stay up needs endpoints in others that can carry the load',
  ),
  LAST_ENDPOINT: change('error', 'a port of a Service loses its last endpoint', 'Clients fail without live endpoints'),
  SERVICE_REMOVED: change(
    'warning',
    'a Service with endpoints, or a port of one, is removed',
    'Clients that still use it fail',
  ),
  ENDPOINTS_CHANGED: change(
    'warning',
    'more than `policy.endpointsChangedPercent` of all endpoints change',
    'A change of this size is more often broken input than intended',
  ),
  NODES_CHANGED: change(
    'warning',
    'more than `policy.nodesChangedPercent` of all nodes get other rules',
    'A fault affects all of these nodes at once; waves limit it',
  ),
  NODE_PORT_OPENED: change(
    'warning',
    'a node port opens, or all of them on more addresses',
    'It is open on every node of the profile, to every client that can reach one',
  ),
  AFFINITY_CHANGED: change('warning', 'session affinity changes', 'Clients lose the endpoint that has their session'),
  TRAFFIC_POLICY_CHANGED: change(
    'warning',
    'internalTrafficPolicy or externalTrafficPolicy changes',
    'Other endpoints may serve the traffic, and endpoints may see another client address',
  ),
  RANGES_WIDENED: change(
    'error',
    'source ranges of a load balancer are widened, or removed in a family',
    'Sources that were blocked can connect',
  ),
  MODE_CHANGED: change(
    'warning',
    'a profile changes its mode',
    'Established connections break, because the kernel handles them differently',
  ),
  RULE_GROWTH: change(
    'warning',
    'the rules of a profile grow by more than `policy.ruleGrowthPercent`',
    'Every rule costs time at each load and at each first packet',
  ),
  SYSCTL_CHANGED: change(
    'warning',
    'a sysctl changes',
    'It applies to the whole node, not only to traffic of Services',
  ),
  ANNOTATION_WITHOUT_EFFECT: input(
    'warning',
    'a Service has an annotation for source ranges without `loadBalancerSourceRanges`, one that inverts these, one for affinity by cookies, or for load balancers that address pods directly',
    'Nodes admit every client, rules for packets see no cookies, and send traffic of the load balancer to nodes first: clients may lose their sessions or their address',
  ),
  TOPOLOGY_KEYS: input(
    'warning',
    'a Service has `topologyKeys`',
    'Kubernetes has removed the field in 1.22: traffic goes to endpoints everywhere',
  ),
  ENDPOINT_NODE_NOT_READY: input(
    'warning',
    'an endpoint that counts as ready is on a Node that is not',
    'The node may be dead while its endpoints still get traffic: kube-proxy, and so Sluice, looks at endpoints alone',
  ),
  WAIVER_EXPIRED: state(
    'error',
    'a waiver has expired',
    'The exception was meant to end on that day and needs a new review',
  ),
  WAIVER_UNUSED: state('note', 'a waiver matches no finding', 'An unneeded exception hides the next finding'),
} as const satisfies Record<string, PolicyRule>;

export type PolicyCode = keyof typeof policyRules;
export const policyCodes = Object.keys(policyRules) as readonly PolicyCode[];
