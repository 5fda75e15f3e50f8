import { families, modes, type Problem, refusal } from '@sluice/netfilter';
import {
  type Checked,
  type CheckedMap,
  checkOf,
  hexOf,
  isCount,
  isFlag,
  isNodeName,
  listOf,
  oneOf,
  optional,
  shape,
} from '../checks.ts';
import { readJson } from '../documents.ts';

const isText = checkOf<string>((value) => typeof value === 'string' && value.length <= 64 * 1024);
const texts = listOf(isText, 1_000_000);
const family = oneOf(...families);
const protocol = oneOf('tcp', 'udp', 'sctp');

/**
 * `kept`: connection tracking translates their packets on, whatever the rules say. `stale`: the same, to an endpoint that the bundle does
 * not have there: of TCP and SCTP they end by their peers or time-outs. `removed`: stale ones of UDP, whose clients would never get
 * another endpoint: `sluiced` deletes them. `ends`: IPVS forwards them, and the move removes its virtual servers.
 */
const connectionOutcomes = ['kept', 'stale', 'removed', 'ends'] as const;

const connection = shape({
  /** As of a difference. */
  frontend: isText,
  family,
  /** Empty where the bundle has no Service there. */
  services: texts,
  endpoint: isText,
  /** TCP and SCTP: established connections. UDP: flows. */
  count: isCount,
  after: oneOf(...connectionOutcomes),
});
export type ParityConnection = Checked<typeof connection>;

/** Connections that were tracked at the moment of the observation, and what a move to the bundle makes of them. */
const connections = shape({
  /** To frontends of either side, the first 10,000 pairs of a frontend and an endpoint by protocol, frontend and endpoint. */
  pairs: listOf(connection, 1_000_000),
  /** Connections that are not in `pairs`. */
  notCovered: shape({
    /** To addresses and ports that are no frontend of either side: of other programs. */
    elsewhere: isCount,
    /** Behind a limit of the observation or of `pairs`. */
    left: isCount,
  }),
});
export type ParityConnections = Checked<typeof connections>;

/** Something that was not compared. */
const notCovered = shape({
  /** A rule that packets of Services can meet, a part of the observation, or a kind of packet. */
  what: isText,
  /** `observed.json:1204`; absent where there is no line. */
  at: optional(isText),
  why: isText,
  /** Cases without a result because of it; 0 for a part that no case needs. */
  cases: isCount,
  /** Whether the result is `incomplete` because of it. */
  matters: isFlag,
});
export type NotCovered = Checked<typeof notCovered>;

/**
 * Why the two sides differ. `config`: a setting of the node or the profile. `objects`: Services or endpoints that changed between the
 * observation and the bundle. `mode`: a documented difference of modes; it does not make the result `different`. `version`: one of the
 * version of kube-proxy that the node runs, which rules do not follow. `foreign-rule`: a rule of neither. `bug`: none of these, so one side
 * is wrong.
 */
export const parityCauses = ['config', 'objects', 'mode', 'version', 'foreign-rule', 'bug'] as const;
export type ParityCause = (typeof parityCauses)[number];

/** The first packet of a connection, or one of an established one. */
const packet = shape({
  from: isText,
  /** Absent: the node itself sends it. */
  in: optional(isText),
  to: isText,
  port: isCount,
  protocol,
  /** Absent: `new`. `established`: a later packet. `invalid`: one of no connection. */
  state: optional(oneOf('established', 'invalid')),
});
export type ParityPacket = Checked<typeof packet>;

const difference = shape({
  /** Stable over runs, bundles and observations that show the same difference: 16 hex digits. */
  id: hexOf(16),
  /** `10.96.0.10:80/tcp`, `node port 30080/tcp`, `localhost 30080/tcp`. */
  frontend: isText,
  family,
  /** `shop/web`, in byte order; empty where the bundle has no Service there. */
  services: texts,
  source: shape({
    class: oneOf('pod-here', 'pod-elsewhere', 'node', 'outside', 'endpoint'),
    /** The network that a rule matches. */
    network: optional(isText),
    address: isText,
  }),
  /** `dnat 10.244.1.5:8080 1/2 | 10.244.2.7:8080 1/2; affinity 10800 s`, in the words of `sluice diff`. */
  observed: isText,
  desired: isText,
  cause: oneOf(...parityCauses),
  /** With `mode` and `version`: the code of the documented difference. */
  code: optional(isText),
  /** With `foreign-rule`: the rule as it was observed. */
  rule: optional(isText),
  packet,
  /** Other sources with the same difference, by class. Of later packets other ones: `tcp outside to pod-here`. */
  alsoFrom: texts,
  advice: isText,
});
export type ParityDifference = Checked<typeof difference>;

const reportChecks = {
  node: isNodeName,
  /** Of the observation; absent for saved outputs. */
  bootId: optional(isText),
  /** `digest` of the observation. */
  observedDigest: hexOf(64),
  /** The version of the node's part of the bundle, 16 hex digits. */
  version: hexOf(16),
  /** Modes of both sides; observed ones are those whose rules or servers translate packets. */
  modes: shape({ observed: listOf(oneOf(...modes), 1_000_000), desired: oneOf(...modes) }),
  /**
   * Another bundle, whose own differences from the node are left out: a review of a change looks at what the change makes different.
   * Absent: all differences are here.
   */
  base: optional(
    shape({
      /** Of the node's part of that bundle, 16 hex digits. */
      version: hexOf(16),
      /** Differences that both bundles have, and which are not here. */
      known: isCount,
    }),
  ),
  /**
   * `equivalent`: no packet that was traced is treated differently, but for documented differences of modes. `different`: at least one is.
   * `incomplete`: none was found, but not all could be traced.
   */
  result: oneOf('equivalent', 'different', 'incomplete'),
  coverage: shape({
    /** Frontends of either side. */
    frontends: isCount,
    /** Different sources, over all frontends. */
    sources: isCount,
    /** Pairs of a frontend and a source: each was traced on both sides. */
    cases: isCount,
    notCovered: listOf(notCovered, 1_000_000),
  }),
  /** In the order of frontends; each id once. */
  differences: listOf(difference, 1_000_000),
  /** What becomes of tracked connections; absent where the observation has none of them. It does not count for the result. */
  connections: optional(connections),
};

/**
 * What `sluice parity -o json` prints: whether a node's kernel treats every packet of a Service as a bundle would. README.md, "Parity
 * reports". A certificate is made of it.
 */
export type ParityReport = CheckedMap<typeof reportChecks>;

/** The format that `sluice parity -o json` writes; a reader refuses any other. */
const parityReportFormat = 1;

/** Prints a report as JSON, with its keys in one order. */
export function printParityReport(of: ParityReport): string {
  const head = { apiVersion: 'sluice.dev/v1alpha1', kind: 'ParityReport', format: parityReportFormat } as const;
  return `${JSON.stringify({ ...head, ...of }, null, 2)}\n`;
}

/**
 * Reads what `sluice parity -o json` printed. @param file named in the problem
 * @returns the report, or `PARITY_REPORT_INVALID`: it is not of this form, or its result contradicts its content
 */
export function readParityReport(file: string, text: string): ParityReport | Problem {
  const found = readJson(text, 'ParityReport', { format: oneOf(parityReportFormat), ...reportChecks });
  if (typeof found === 'string') return invalid(file, found);
  const { format: _format, ...read } = found;
  const unfounded = read.differences.find((each) => !isFounded(each, read.modes));
  if (unfounded) return invalid(file, `difference ${unfounded.id} has not what its cause, ${unfounded.cause}, needs`);
  if (new Set(read.differences.map(({ id }) => id)).size < read.differences.length)
    return invalid(file, 'two of its differences have one id');
  if (read.result !== resultOf(read)) return invalid(file, `its content does not mean ${read.result}`);
  return read;
}

/** A documented difference has its code, and one of modes is between two of them: it needs no acceptance. */
function isFounded({ cause, code, rule }: ParityDifference, { observed, desired }: ParityReport['modes']): boolean {
  if (cause === 'foreign-rule') return rule !== undefined;
  if (cause === 'version') return code?.startsWith('VERSION_') === true;
  return cause !== 'mode' || (code?.startsWith('DIFFERS_') === true && observed.some((mode) => mode !== desired));
}

/** The result that differences and coverage mean. */
export function resultOf({
  differences,
  coverage,
}: Pick<ParityReport, 'differences' | 'coverage'>): ParityReport['result'] {
  if (differences.some(({ cause }) => cause !== 'mode')) return 'different';
  return coverage.notCovered.some(({ matters }) => matters) ? 'incomplete' : 'equivalent';
}

const invalid = (file: string, why: string): Problem =>
  refusal(
    'PARITY_REPORT_INVALID',
    `Cannot read ${file}: ${why}`,
    'Write it with `sluice parity OBSERVED BUNDLE --node NAME -o json`, and read it with a Sluice of the same version',
  );
