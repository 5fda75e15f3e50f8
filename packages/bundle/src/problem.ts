import { bundleLimits } from './limits.ts';
/**
 * How bad a problem is. `--strict` turns warnings into errors; `differs` (mode ipvs does something otherwise than mode
 * iptables), `guess` and `note` never stop anything.
 */
export type Level = 'error' | 'warning' | 'differs' | 'guess' | 'note';

/** A position in a file that a person wrote. Lines and columns count from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One thing that is wrong, in the words of the person who can mend it. */
export interface Problem {
  readonly code: ProblemCode;
  readonly level: Level;
  readonly at?: Place;
  /** The object it is about, such as `Service shop/web`. */
  readonly object?: string;
  /** "Cannot ⟨do⟩ ⟨to what⟩: ⟨why⟩", without a full stop. */
  readonly message: string;
  /** What to do next. */
  readonly hint: string;
}

/**
 * Every code there is, with what it means in one line. Codes are public contract: a code is never reused and never changes
 * its meaning. docs/problems.md lists them from here.
 */
export const problemCodes = {
  // the command line
  USAGE_INVALID: 'a command, an argument or an option is not one that the program has',
  // a running cluster
  CLUSTER_ACCESS: 'no kubeconfig, context or credentials lead to a cluster',
  CLUSTER_FORBIDDEN: 'the API server does not let the account do what is needed',
  CLUSTER_UNREACHABLE: 'the API server does not answer, or something else answers in its place',
  CLUSTER_UNTRUSTED: 'the certificate of the API server is not one that the kubeconfig trusts',
  // bytes and documents
  INPUT_UNREADABLE: 'a file or directory cannot be read',
  INPUT_EMPTY: 'the input holds nothing that the command can use',
  INPUT_TOO_LARGE: 'a file, document, list or nesting is beyond the limits',
  YAML_SYNTAX: 'the text is neither YAML nor JSON',
  YAML_DUPLICATE_KEY: 'one mapping has a key twice',
  YAML_AMBIGUOUS_SCALAR: 'YAML 1.1 and 1.2 read a plain scalar differently',
  YAML_ALIAS_BOMB: 'aliases expand beyond the limit',
  CONTROL_CHARACTER: 'a string holds a control character',
  // objects
  OBJECT_MALFORMED: 'something is no Kubernetes object',
  API_VERSION_UNKNOWN: 'the apiVersion of a known kind is not one that Sluice reads',
  FIELD_TYPE: 'a field has the wrong type',
  FIELD_VALUE: 'a field has a value that Kubernetes does not allow',
  FIELD_MISSING: 'a required field is not there',
  FIELD_UNKNOWN: 'a field that Kubernetes does not know is passed over',
  KIND_UNKNOWN: 'a kind is spelled almost like one that Sluice reads',
  NAME_INVALID: 'a name is no DNS label or subdomain',
  OBJECT_CONFLICT: 'one layer has two contents of one object',
  OBJECT_IGNORED: 'kube-proxy would pass over this object in silence',
  // addresses and ports
  ADDRESS_INVALID: 'a text is no IP address or CIDR in canonical form',
  ADDRESS_WRONG_FAMILY: 'an address is of a family that its field does not allow',
  ADDRESS_FORBIDDEN:
    'an address must not be routed to (CVE-2021-25737), or an endpoint is at the ClusterIP of a Service',
  PORT_INVALID: 'a port is outside 1 to 65535',
  VIP_CONFLICT: 'two Services claim one address, port and protocol',
  NODE_PORT_CONFLICT: 'two Services claim one node port',
  NODES_MISSING: 'a bundle is for no node',
  RANGE_OUTSIDE: 'an address or a node port is outside of the ranges that sluice.yaml or ServiceCIDRs name',
  SERVICE_CIDRS_DIFFER:
    'serviceCIDRs of sluice.yaml is not what the ServiceCIDR of the API server says; sluice.yaml wins',
  SERVICE_SHADOWS: 'a Service has an address or a port that something else on the nodes has',
  CHAIN_COLLISION: 'two names have one chain hash',
  SERVICE_WITHOUT_ENDPOINTS: 'a Service with a selector has no endpoint: its traffic is rejected',
  SERVICE_WAITS: 'a new Service waits for the API server to give it an address',
  SLICE_WITHOUT_SERVICE: 'an EndpointSlice names no Service and is passed over, as by kube-proxy',
  SLICE_ORPHANED: 'an EndpointSlice or Endpoints belongs to a Service that is not there',
  ENDPOINT_WITHOUT_PORT: 'an endpoint has no port of the name that the Service asks for',
  ENDPOINTS_GUESSED: 'selector or targetPort changed: the old endpoints are kept as a guess',
  NODE_UNKNOWN: 'a node is only known by name, some of its facts are missing',
  // config
  CONFIG_INVALID: 'sluice.yaml or a KubeProxyConfiguration is not valid',
  CONFIG_OVERRIDES: 'SluiceConfig and KubeProxyConfiguration differ; SluiceConfig wins',
  CONFIG_IGNORED: 'a KubeProxyConfiguration asks for something that nodes with Sluice do otherwise',
  CONFIG_UNSUPPORTED: 'an option asks for what Sluice does not do',
  SYSCTL_NOT_ALLOWED: 'a sysctl key or value is outside the allow-list',
  MODE_DEPRECATED: 'a profile runs a mode that Kubernetes is taking out',
  ANNOTATION_IGNORED: 'an annotation for mode ipvs has no effect on nodes of mode iptables',
  WEIGHTS_IGNORED: 'a Service gives weights to endpoints, and its scheduler does not look at them',
  KUBE_PROXY_VERSION_UNSET:
    'a profile names no version of kube-proxy, and some version would serve a Service of the input differently',
  DETECTOR_MISSING: 'a profile cannot tell traffic of pods from other traffic in a family',
  // what mode ipvs does otherwise than mode iptables
  DIFFERS_LOCAL_FALLBACK:
    'with policy Local, a node without an endpoint sends traffic to other nodes instead of dropping it',
  DIFFERS_LOCAL_INSIDE: 'with external policy Local, pods and nodes reach only local endpoints by external addresses',
  DIFFERS_NO_ENDPOINT: 'where a Service has no endpoint no rule rejects or drops its traffic; the kernel answers',
  DIFFERS_LOCALHOST: 'a node port does not answer on 127.0.0.1',
  DIFFERS_AFFINITY: 'session affinity is kept for each address of a Service by itself',
  DIFFERS_OTHER_PORTS:
    'addresses of Services are local to each node: they answer ping, and ports without a Service are rejected',
  DIFFERS_INVALID: 'packets that connection tracking calls INVALID are not dropped when they are forwarded',
  // allocation
  ALLOCATION_INVALID: 'an allocation file does not hold what it should',
  ALLOCATION_MISSING: 'a Service has numbers that no allocation file keeps yet',
  ALLOCATION_CONFLICT: 'two allocation files hold one address or port',
  ALLOCATION_EXHAUSTED: 'a range has no free address or port left',
  // bundle directories
  BUNDLE_INVALID: 'a bundle directory is not what the format says',
  BUNDLE_INCOMPLETE: 'a bundle directory is not complete',
  BUNDLE_UNTRUSTED: 'a bundle directory, or one above it, can be written by somebody else',
  BUNDLE_UNKNOWN_NODE: 'the bundle has no such node',
  RELEASE_INVALID: 'release.yaml, SHA256SUMS or a signature file is not what the format says',
  RELEASE_SERIAL: 'a release has a serial that it must not have',
  RELEASE_UNSIGNED: 'too few of the signers that are allowed have signed a release',
  RELEASE_ENDPOINTS_ONLY: 'keys that may sign updates of endpoints have signed more than that',
  RELEASE_EQUIVOCATION: 'two releases with different content have one serial',
  RELEASE_ELSEWHERE: 'a release is for another cluster or has no such node',
  RELEASE_EXPIRED: 'a release that runs is past its time: newer ones may be held back',
  RELEASE_SIGNERS_CHANGED: 'the signatures of a release that was accepted do not hold any more',
  RELEASE_WAITS: 'a release is good, and the wave of the node is not open yet',
  WAVES_INVALID: 'the waves of a release, or how many of them are open, are not what the format says',
  WAVE_NOT_READY: 'the next wave must not open: a node of the open ones has not said that it is well',
  RECEIPT_INVALID: 'a receipt is not what the format says, or nobody known has signed it',
  SIGNERS_INVALID: 'allowed_signers is not as strict as it must be, or cannot be used',
  ARCHIVE_INVALID: 'an archive of a release is not what `sluice pack` writes',
  ARCHIVE_BASE: 'an archive of changes is not for the release that is there',
  REGISTRY_UNREACHABLE: 'a registry does not answer, or something else answers in its place',
  REGISTRY_ACCESS: 'there are no credentials for a registry, or it does not let them do what is needed',
  REGISTRY_INVALID: 'what a registry holds is not what was asked for',
  RULE_REFUSED: 'a rule line is outside the strict grammar',
  PROGRAM_LIMIT: 'rules in layout tree would be deeper or more in a row than the kernel should take',
  OUTPUT_NOT_A_BUNDLE: 'the output directory holds something else',
  OUTPUT_UNWRITABLE: 'a file or directory cannot be written',
  OUTPUT_STALE: 'the output directory is not what would be written',
  LISTEN_FAILED: 'the address for health and metrics cannot be listened on',
  GIT_UNREADY: 'the output directory cannot be committed or pushed',
  INTERNAL: 'the program met a state that it should never reach',
  ANSWER_MISSING: 'a command asks before it changes something, and there is no terminal to answer',
  // the node
  HOST_FACTS_INVALID: 'a file of host facts is not one that this Sluice reads, or is of another node',
  NODE_CONFIG_INVALID: 'sluiced.yaml is not valid',
  NODE_TOOL_MISSING: 'a tool that the bundle needs is not on the node',
  NODE_LACKS_NEED: 'the node cannot do what the profile needs',
  NODE_CHAINS_NOT_OURS: 'chains of these names were made by somebody else',
  NODE_SERVERS_NOT_OURS: 'virtual servers or sets of these names were made by somebody else',
  NODE_SYSCTL_FIXED: 'a sysctl of the profile cannot be written on the node',
  NODE_REFUSES_RULES: 'the kernel of the node does not take the rules',
  NODE_CANNOT_REHEARSE: 'nobody could be asked whether the kernel of the node takes the rules; it is tried again',
  NODE_NOT_ROOT: 'a command that asks the kernel of the node was not run as root',
  NODE_LOCKED: 'another sluiced holds the state directory',
  NODE_STATE_INVALID: 'the state directory cannot be read or has another schema',
  NODE_HELD: 'the node waits for a person',
  BUNDLE_PARTIAL: 'the bundle was made from partial input',
  BUNDLE_QUARANTINED: 'the bundle failed on this node before',
  RELEASES_TOO_MANY: 'the node tried as many releases within an hour as it may',
} as const satisfies Record<string, string>;

export type ProblemCode = keyof typeof problemCodes;

/** `shop.yaml:41:7: error: Cannot … [CODE]` and the hint on a line of its own. */
export function printProblem(problem: Problem): string {
  const at = problem.at ? `${problem.at.file}:${problem.at.line}:${problem.at.column}: ` : '';
  const object = problem.object ? `${problem.object}: ` : '';
  return `${at}${problem.level}: ${object}${problem.message} [${problem.code}]\n    ${problem.hint}\n`;
}

/** By file, line, column, then code and message: the order in which people read. */
export function compareProblems(a: Problem, b: Problem): number {
  return (
    compareText(a.at?.file ?? '', b.at?.file ?? '') ||
    (a.at?.line ?? 0) - (b.at?.line ?? 0) ||
    (a.at?.column ?? 0) - (b.at?.column ?? 0) ||
    compareText(a.code, b.code) ||
    compareText(a.message, b.message)
  );
}

/** Byte order, whatever the locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Keeps the first problems of a file and counts the rest: a file of 8 MiB may have a problem in each of 230,000 lines, and a problem is
 * larger than a line.
 */
export class FileProblems {
  readonly #kept: Problem[] = [];
  readonly #most: number;
  #left = 0;

  /** @param most how many are kept */
  constructor(most: number = bundleLimits.problemsPerFileMax) {
    this.#most = most;
  }

  add(problem: Problem): void {
    if (this.#kept.length < this.#most) this.#kept.push(problem);
    else this.#left += 1;
  }

  get isEmpty(): boolean {
    return this.#kept.length === 0;
  }

  /** In the order in which they came. Of more than are kept the last one says how many more there are. */
  get all(): readonly Problem[] {
    const last = this.#kept.at(-1);
    if (!last || this.#left === 0) return this.#kept;
    return [
      ...this.#kept.slice(0, -1),
      { ...last, message: `${last.message} (and ${this.#left} more problems in this file)` },
    ];
  }
}
