import { ruleLimits } from './limits.ts';
/**
 * The severity of a problem. `--strict` turns warnings into errors; `differs` (between a mode and mode iptables), `guess` and
 * `note` never fail a command.
 */
export type Level = 'error' | 'warning' | 'differs' | 'guess' | 'note';

/** A position in an input file. Lines and columns count from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** One problem, in the words of the user who can fix it. */
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
 * Every problem code with its meaning in one line. Codes are public contract: a code is never reused and never changes its meaning.
 * docs/problems.md is generated from this table.
 */
export const problemCodes = {
  // the command line
  USAGE_INVALID: 'the command line has an unknown command, argument or option, or an invalid value',
  // a running cluster
  CLUSTER_ACCESS: 'no kubeconfig, context or credentials for a cluster were found',
  CLUSTER_FORBIDDEN: 'the account lacks a permission that the command needs',
  CLUSTER_UNREACHABLE: 'the API server does not answer, or another server answers in its place',
  CLUSTER_UNTRUSTED: 'the kubeconfig does not trust the certificate of the API server',
  // bytes and documents
  INPUT_UNREADABLE: 'a file or directory cannot be read',
  INPUT_EMPTY: 'the input contains nothing that the command can use',
  INPUT_TOO_LARGE: 'a file, document, list or nesting is beyond the limits',
  YAML_SYNTAX: 'the text is neither YAML nor JSON',
  YAML_DUPLICATE_KEY: 'one mapping has a key twice',
  YAML_AMBIGUOUS_SCALAR: 'YAML 1.1 and 1.2 read a plain scalar differently',
  YAML_ALIAS_BOMB: 'aliases expand beyond the limit',
  CONTROL_CHARACTER: 'a string contains a control character',
  // objects
  OBJECT_MALFORMED: 'a document is not a Kubernetes object',
  API_VERSION_UNKNOWN: 'Sluice does not read this apiVersion of a known kind',
  FIELD_TYPE: 'a field has the wrong type',
  FIELD_VALUE: 'a field has a value that Kubernetes does not allow',
  FIELD_MISSING: 'a required field is missing',
  FIELD_UNKNOWN: 'an unknown field is ignored',
  KIND_UNKNOWN: 'an unknown kind is spelled almost like a kind that Sluice reads',
  NAME_INVALID: 'a name is not a valid DNS label or subdomain',
  OBJECT_CONFLICT: 'one layer has two different versions of one object',
  OBJECT_IGNORED: 'kube-proxy would silently ignore this object',
  // addresses and ports
  ADDRESS_INVALID: 'a value is not an IP address or CIDR in canonical form',
  ADDRESS_WRONG_FAMILY: 'the field does not allow the family of this address',
  ADDRESS_FORBIDDEN:
    'an endpoint has an address that must not be routed to (CVE-2021-25737), or the ClusterIP of a Service',
  PORT_INVALID: 'a port is outside 1 to 65535',
  VIP_CONFLICT: 'two Services claim one address, port and protocol',
  NODE_PORT_CONFLICT: 'two Services claim one node port',
  NODES_MISSING: 'a bundle would have no nodes',
  RANGE_OUTSIDE: 'an address or a node port is outside of the ranges in sluice.yaml or ServiceCIDRs',
  SERVICE_CIDRS_DIFFER:
    'serviceCIDRs of sluice.yaml differs from the ServiceCIDR of the API server; sluice.yaml takes precedence',
  SERVICE_SHADOWS: 'a Service has an address or a port that the nodes use otherwise',
  CHAIN_COLLISION: 'two names have one chain hash',
  SERVICE_WITHOUT_ENDPOINTS: 'a Service with a selector has no endpoint: its traffic is rejected',
  SERVICE_WAITS: 'a new Service waits for the API server to give it an address',
  SLICE_WITHOUT_SERVICE: 'an EndpointSlice names no Service and is ignored, as by kube-proxy',
  SLICE_ORPHANED: 'an EndpointSlice or Endpoints belongs to a Service that does not exist',
  ENDPOINT_WITHOUT_PORT: 'an endpoint has no port with the name that the Service requires',
  ENDPOINTS_GUESSED: 'selector or targetPort changed: the old endpoints are kept as a guess',
  NODE_UNKNOWN: 'a node is known by name only; some of its facts are missing',
  // config
  CONFIG_INVALID: 'sluice.yaml or a KubeProxyConfiguration is not valid',
  CONFIG_OVERRIDES: 'SluiceConfig and KubeProxyConfiguration differ; SluiceConfig takes precedence',
  CONFIG_IGNORED: 'an option of KubeProxyConfiguration has no effect on nodes with Sluice',
  CONFIG_UNSUPPORTED: 'Sluice does not support an option',
  SYSCTL_NOT_ALLOWED: 'a sysctl key or value is outside the allow-list',
  MODE_DEPRECATED: 'a profile uses a mode that Kubernetes has deprecated',
  MODE_BY_DEFAULT: 'a profile names no mode, and the default of kube-proxy will be another one',
  EXTERNAL_IPS_END: 'a Service has external IPs, which Kubernetes ends',
  MODE_NEEDS_SLUICED: 'nodes need a version of sluiced that knows the mode of their profile',
  ANNOTATION_IGNORED: 'an annotation for other modes has no effect on nodes of a mode',
  WEIGHTS_IGNORED: 'a Service has weights of endpoints, but its scheduler ignores weights',
  SCHEDULER_IGNORED: 'a Service has a scheduler and session affinity, with which its mode chooses at random',
  MAGLEV_TABLE_SMALL: 'a Service has so many endpoints that its Maglev table cannot share connections evenly',
  KUBE_PROXY_VERSION_UNSET:
    'a profile names no version of kube-proxy, and some version would serve a Service of the input differently',
  DETECTOR_MISSING: 'a profile cannot distinguish traffic of pods from other traffic in a family',
  // differences of modes ipvs and nftables from mode iptables
  DIFFERS_LOCAL_FALLBACK:
    'with policy Local, a node without an endpoint sends traffic to other nodes instead of dropping it',
  DIFFERS_LOCAL_INSIDE: 'with external policy Local, pods and nodes reach only local endpoints by external addresses',
  DIFFERS_NO_ENDPOINT: 'without endpoints the traffic of a Service is rejected or dropped in another way',
  DIFFERS_LOCALHOST: 'a node port does not answer on 127.0.0.1',
  DIFFERS_AFFINITY: 'session affinity is kept separately for each address of a Service',
  DIFFERS_OTHER_PORTS:
    'addresses of Services are local to each node: they answer ping, and ports without a Service are rejected',
  DIFFERS_INVALID: 'forwarded packets in conntrack state INVALID are not dropped',
  DIFFERS_NODE_PORTS: 'node ports are open only on the address of the Node',
  DIFFERS_SCHEDULER: 'endpoints are chosen at random instead of by the scheduler of the Service',
  DIFFERS_CLUSTER_IPS:
    'packets to other ports of ClusterIPs are rejected, and those to unused addresses of Service CIDRs dropped',
  DIFFERS_CLOSED_NODE_PORTS: 'where node ports are not open, no rule rejects or drops packets to them',
  DIFFERS_HEALTH_CHECK: 'no rule accepts packets to health-check node ports',
  // documented differences of versions of kube-proxy, in parity reports
  VERSION_ZERO_RANGE:
    'before 1.34 kube-proxy in mode ipvs drops clients that only a source range of all addresses (prefix length 0) admits',
  VERSION_EARLY_CHECKS:
    'before 1.33 kube-proxy in mode nftables refuses packets of the node itself before it translates them and asks for source ranges',
  VERSION_LOCALHOST_REJECTS:
    'since 1.38 kube-proxy in mode nftables rejects packets to node ports on localhost, which it left alone before',
  VERSION_LOCALHOST_LISTENER:
    'since 1.38 kube-proxy in mode nftables serves TCP node ports on localhost by a listener, which no rule shows',
  // allocation
  ALLOCATION_INVALID: 'an allocation file is not in the required format',
  ALLOCATION_MISSING: 'a Service has allocated addresses or ports that no allocation file records yet',
  ALLOCATION_CONFLICT: 'two allocation files record the same address or port',
  ALLOCATION_EXHAUSTED: 'a range has no free address or port left',
  // bundle directories
  BUNDLE_INVALID: 'a bundle directory is not in the required format',
  BUNDLE_INCOMPLETE: 'a bundle directory is not complete',
  BUNDLE_UNTRUSTED: 'untrusted accounts can write to a bundle directory, or to one above it',
  BUNDLE_UNKNOWN_NODE: 'the bundle has no node of this name',
  RELEASE_INVALID: 'release.yaml, SHA256SUMS or a signature file is not in the required format',
  RELEASE_NEEDS_SLUICED: 'nodes need a newer version of sluiced for what a release requires',
  RELEASE_SERIAL: 'the serial of a release is too low or too far ahead',
  RELEASE_UNSIGNED: 'a release has too few signatures by allowed signers',
  RELEASE_ENDPOINTS_ONLY: 'keys for endpoint updates have signed more than an endpoint update',
  RELEASE_EQUIVOCATION: 'two releases with different content have one serial',
  RELEASE_ELSEWHERE: 'a release is for another cluster or lacks the node',
  RELEASE_EXPIRED: 'the active release has expired: newer ones may be withheld from the node',
  RELEASE_SIGNERS_CHANGED: 'the signatures of an accepted release are no longer valid',
  RELEASE_WITHOUT_SERVICE: 'a Service of the cluster is not in the release, so nodes do not serve it',
  RELEASE_WAITS: 'a release is valid, but the wave of the node is not open yet',
  WAVES_INVALID: 'the waves of a release, or the number of open ones, are not in the required format',
  WAVE_NOT_READY: 'the next wave must not open: a node of an open wave has not reported success',
  RECEIPT_INVALID: 'a receipt is not in the required format, or no known key has signed it',
  CERTIFICATE_INVALID:
    'the result of a comparison cannot be certified, or a parity certificate is not valid for the node',
  SIGNERS_INVALID: 'allowed_signers is not as strict as required, or cannot be used',
  ARCHIVE_INVALID: 'an archive of a release is not in the form that `sluice pack` writes',
  ARCHIVE_BASE: 'an archive of changes requires another release than the installed one',
  REGISTRY_UNREACHABLE: 'a registry or a web server does not answer, or another server answers in its place',
  REGISTRY_ACCESS: 'credentials for a registry or a web server are missing, or lack a permission',
  REGISTRY_INVALID: 'a registry, a web server or an image layout has content other than the requested release',
  // the source of a node
  SOURCE_UNREACHABLE: 'the source of releases cannot be read: no network, no directory, or a missing tool',
  SOURCE_ACCESS: 'credentials for the source of releases are missing, cannot be read, or lack a permission',
  SOURCE_INVALID: 'the source has content that is not the release that it announced',
  RULE_REFUSED: 'a rule line is outside the strict grammar',
  PROGRAM_LIMIT: 'rules in layout tree exceed a limit of depth or length',
  OUTPUT_NOT_A_BUNDLE: 'the output directory contains files that are not of a bundle',
  OUTPUT_UNWRITABLE: 'a file or directory cannot be written',
  OUTPUT_STALE: 'the output directory is out of date',
  LISTEN_FAILED: 'the program cannot listen on an address: for health and metrics, or for releases',
  GIT_UNREADY: 'the output directory cannot be committed or pushed',
  INTERNAL: 'the program reached a state that should be impossible: a bug',
  ANSWER_MISSING: 'a command requires confirmation, but there is no terminal',
  // the node
  HOST_FACTS_INVALID: 'a file of host facts is not in a format that this version reads, or is of another node',
  OBSERVATION_INVALID: 'a file of what was observed is not in a format that this version reads, or is of another node',
  PARITY_REPORT_INVALID: 'a parity report is not in a format that this version reads, or contradicts itself',
  NODE_CONFIG_INVALID: 'sluiced.yaml is not valid',
  NODE_CONFIG_UNTRUSTED: 'untrusted accounts can write to sluiced.yaml, or to a directory above it',
  NODE_TOOL_MISSING: 'a tool that the bundle needs is not installed on the node',
  NODE_LACKS_NEED: 'the node lacks a capability that the profile needs',
  NODE_CHAINS_NOT_OURS: 'another program made chains of these names',
  NODE_SERVERS_NOT_OURS: 'another program made virtual servers or sets of these names',
  NODE_PARITY_MISSING: 'a node takes over from other Service rules only with a valid parity certificate',
  NODE_CANNOT_ADOPT: 'the rules of a kube-proxy cannot be replaced, or brought back, in this way',
  NODE_SYSCTL_FIXED: 'a sysctl of the profile cannot be written on the node',
  NODE_REFUSES_RULES: 'the kernel of the node refuses the rules',
  NODE_CANNOT_REHEARSE: 'the rules could not be rehearsed on the node; sluiced retries',
  NODE_RULES_UNSTEADY: 'another program changes the rules while probes are tried; sluiced retries',
  NODE_NOT_ROOT: 'a command that reads the kernel of the node was not run as root',
  NODE_LOCKED: 'another sluiced holds the state directory',
  NODE_STATE_INVALID: 'the state directory cannot be read or has another schema',
  NODE_HELD: 'the node is halted: manual intervention required',
  BUNDLE_PARTIAL: 'the bundle was made from partial input',
  BUNDLE_QUARANTINED: 'the bundle failed on this node before and is not tried again',
  REMOVAL_HELD: 'a change takes away an unusual share of all Services or endpoints, and is held for a while',
  RELEASES_TOO_MANY: 'the node has reached its limit of releases that fail within an hour',
} as const satisfies Record<string, string>;

export type ProblemCode = keyof typeof problemCodes;

/** `shop.yaml:41:7: error: Cannot … [CODE]` and the hint on a line of its own. */
export function printProblem(problem: Problem): string {
  const at = problem.at ? `${problem.at.file}:${problem.at.line}:${problem.at.column}: ` : '';
  const object = problem.object ? `${problem.object}: ` : '';
  return `${at}${problem.level}: ${object}${problem.message} [${problem.code}]\n    ${problem.hint}\n`;
}

/** Orders problems by file, line, column, then code and message. */
export function compareProblems(a: Problem, b: Problem): number {
  return (
    compareText(a.at?.file ?? '', b.at?.file ?? '') ||
    (a.at?.line ?? 0) - (b.at?.line ?? 0) ||
    (a.at?.column ?? 0) - (b.at?.column ?? 0) ||
    compareText(a.code, b.code) ||
    compareText(a.message, b.message)
  );
}

/**
 * Makes problems of a level.
 * @param message `Cannot DO to WHAT: WHY`, without a full stop
 * @param hint what to do next, in the imperative
 * @param where the place in a file and the object that it is about
 */
const problemOf =
  (level: Level) =>
  (code: ProblemCode, message: string, hint: string, where: Pick<Problem, 'at' | 'object'> = {}): Problem => ({
    code,
    level,
    ...where,
    message,
    hint,
  });
/** A problem for which nothing is done. The parameters are those of `problemOf`, here and below. */
export const refusal = problemOf('error');
/** A problem for which `--strict` stops. */
export const warning = problemOf('warning');
/** What an operator may want to know. */
export const notice = problemOf('note');

/** Ends what was asked, with the problems that keep it from being done. A command prints them and exits with 2. */
export class Stopped extends Error {
  override readonly name = 'Stopped';
  readonly problems: readonly Problem[];

  constructor(problems: Problem | readonly Problem[]) {
    const all = [problems].flat();
    super(all[0]?.message);
    this.problems = all;
  }
}

/** Byte order, independent of the locale. */
export function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Keeps the first problems of a file and counts the rest: a file of 8 MiB may have a problem in each of 230,000 lines, and a problem
 * takes more memory than a line.
 */
export class FileProblems {
  readonly #kept: Problem[] = [];
  readonly #most: number;
  #left = 0;

  /** @param most how many are kept */
  constructor(most: number = ruleLimits.problemsPerFileMax) {
    this.#most = most;
  }

  add(problem: Problem): void {
    if (this.#kept.length < this.#most) this.#kept.push(problem);
    else this.#left += 1;
  }

  get isEmpty(): boolean {
    return this.#kept.length === 0;
  }

  /** The problems in order of `add`. The last one states the number of problems that were not kept. */
  get all(): readonly Problem[] {
    const last = this.#kept.at(-1);
    if (!last || this.#left === 0) return this.#kept;
    return [
      ...this.#kept.slice(0, -1),
      { ...last, message: `${last.message} (and ${this.#left} more problems in this file)` },
    ];
  }
}
