/**
 * Every cause that a doctor names, with its meaning in one line. The order is the order of precedence: of two causes that are equally
 * certain the first one is named, because it explains the other. A halted node holds old rules, and lost rules send packets to no endpoint;
 * never the other way round. Codes are public contract: a code is never reused and never changes its meaning.
 */
export const causes = {
  // nothing else can be judged
  NODE_HALTED: 'automatic work has stopped: the node keeps old rules until an operator decides',
  GENERATION_NONE: 'no bundle was ever applied on this node',
  SERVICE_UNKNOWN: 'the active generation has no Service, address or port of that name',
  TOOL_MISSING: 'a tool that the mode of this node needs is not installed or does not run',
  TOOL_CANNOT_WRITE: 'nft cannot write to this kernel, so no change and no rollback is possible',
  MODULES_OF_OTHER_KERNEL:
    'the modules of the running kernel are not installed: rules that need one more are refused until a reboot',
  // something else writes rules
  KUBE_PROXY_RUNNING: 'a kube-proxy runs on this node and writes rules of its own',
  KUBE_PROXY_LEFTOVERS: 'rules, tables or interfaces of a former kube-proxy are left, and may take packets of Services',
  RULES_IN_BOTH_STORES: 'both rule stores hold rules for Services: packets meet both',
  // Sluice's own part of the kernel
  RULES_DIFFER: 'the kernel does not hold the rules of the active generation',
  TABLE_NOT_PRINTED:
    'iptables cannot print a table in which another program has rules: those of Sluice there are not known',
  SYSCTL_DIFFERS: 'a sysctl does not have the value that the active generation sets',
  // the path of packets, from the first hook to the endpoint
  FORWARDING_OFF: 'the kernel does not forward packets of this family',
  IPV6_OFF: 'IPv6 is switched off on this node, but Services have IPv6 addresses',
  FOREIGN_NOTRACK: 'a foreign rule exempts packets of the Service from connection tracking, so nothing translates them',
  FOREIGN_DROP: 'a foreign rule or policy drops packets of the Service',
  FOREIGN_TRANSLATION:
    "a foreign rule before Sluice's translates packets of the Service, gives them to a proxy, or exempts them from translation",
  NO_ENDPOINTS: 'no endpoint of the Service is ready: its packets are rejected',
  NO_LOCAL_ENDPOINT: 'the traffic policy is Local and no endpoint is on this node: its packets are dropped',
  NO_ROUTE: 'this node has no route to an endpoint, to the address of the Service, or back to clients',
  INTERFACE_DOWN: 'the interface towards an endpoint is down',
  BRIDGE_NOT_FILTERED:
    'a bridge of pods passes replies on without iptables, so that nothing translates them back for pods of the same bridge',
  NEIGHBOUR_FAILED: 'the next hop towards an endpoint does not answer ARP or neighbour discovery',
  NODE_ADDRESS_MISSING: 'no interface has the address that the bundle gives this node',
  REVERSE_PATH_FILTER: 'the reverse path filter drops packets that arrive on another interface than replies would take',
  MTU_TOO_SMALL: 'packets do not fit through the interface towards an endpoint',
  CONNTRACK_FULL: 'the table of tracked connections is full: new connections are dropped',
  MASQUERADE_PORTS_EXHAUSTED: 'masqueraded connections to one endpoint have used up the source ports',
  CONNTRACK_CLASHES: 'the kernel could not insert connections into its table',
  NEIGHBOUR_TABLE_FULL: 'the neighbour table is full: new next hops cannot be reached',
  STALE_CONNECTIONS: 'tracked connections lead where the Service does not send them: they are older than its rules',
  ENDPOINT_REFUSES: 'an endpoint that is ready refuses connections: its port is wrong, or its program has ended',
  ENDPOINT_SILENT: 'an endpoint that is ready does not answer',
  CONNTRACK_TIMEOUT_SHORT: 'idle connections are forgotten so early that clients lose them',
  // addresses and ports that mean two things
  ADDRESS_ON_INTERFACE: 'an interface of this node has the address of a Service',
  ADDRESS_SHARED: 'two Services answer on one address and port',
  SERVICE_LEFT_OUT: 'the Service cannot be rendered: the bundle lacks it, or has it as it was before',
  SERVICE_LEFT_TO_OTHERS:
    'the Service, or the address, is left out on purpose: its labels or fields leave it to others',
  HAIRPIN_OFF:
    'a bridge does not send packets back to the port they came from: a pod cannot reach itself through a Service',
  LISTENER_ON_NODE_PORT: 'a program listens on a node port: connections to it go to the Service',
  PORT_RANGE_OVERLAPS: 'the kernel picks source ports among the node ports',
  // what the node will run next
  DISK_FULL: 'the file system of the state directory is full: nothing can be recorded, so nothing changes',
  DISK_READ_ONLY: 'the state directory cannot be written',
  CLOCK_WRONG: 'the clock of this node is wrong: signatures and expiry are judged by it',
  BUNDLE_REFUSED: 'this node refuses the bundle in its directory and keeps the former one',
  RELEASE_EXPIRED: 'the active release is past its time: newer ones may be withheld from this node',
  RELEASE_SIGNERS_CHANGED:
    'the signatures of the active release are no longer valid: a key or its certificate has ended',
  BUNDLE_QUARANTINED: 'the bundle in the directory failed here before and is not tried again',
  BUNDLE_ABSENT: 'the bundle directory is missing: this node gets no more changes',
  BUNDLE_WAITS: 'the bundle directory holds a newer version that was not applied',
  SERVICE_QUARANTINED: 'the Service is left out of the active generation because its newer version failed',
  DAEMON_ALARM: 'the daemon raises an alarm',
  // what a snapshot shows without a node
  TARGET_PORT_UNKNOWN: 'no endpoint has a port of the name that the Service asks for',
  ENDPOINTS_NOT_READY: 'the Service has endpoints, but none is ready',
  ENDPOINT_NODE_NOT_READY: 'an endpoint that is ready is on a node that is not: it may be dead and still gets traffic',
  SELECTOR_MATCHES_NOTHING: 'the Service has a selector, and no EndpointSlice belongs to it',
} as const satisfies Record<string, string>;

export type CauseCode = keyof typeof causes;

/** Position in the order of precedence, from 0. */
export const precedenceOf = (code: CauseCode): number => order.get(code) ?? order.size;

const order: ReadonlyMap<string, number> = new Map(Object.keys(causes).map((code, index) => [code, index]));
