import {
  compareText,
  isRuleError,
  type Outcome,
  type Packet,
  perObject,
  readRule,
  type RuleHit,
  sortShort,
  trace,
} from '@sluice/netfilter';
import type { Affinity, Branch, FlowOutcome } from './flow.ts';
import { planesOf } from './planes/planes.ts';
import type { NodeProgram } from './planes/plane.ts';

/**
 * Traces the connections that start with a packet: every branch with its share, and the effect of affinity on a returning client.
 * @throws TraceError for rules that the tracer does not understand
 */
export function outcomeOf(program: NodeProgram, packet: Packet, localAddresses: readonly string[]): FlowOutcome {
  const { rules, ipvs, nft, live } = program;
  const world = { localAddresses, ipvs, nft, live };
  const traceClient: TraceClient = (remembers) =>
    trace(rules, remembers === undefined ? packet : { ...packet, remembers }, world);
  const outcomes = traceClient(undefined);
  const branches = branchesOf(outcomes);
  const { mayHaveAffinity, mayHaveScheduler } = traitsOf(program);
  const affinity = live !== undefined || mayHaveAffinity ? affinityOf(traceClient, outcomes, program) : undefined;
  const scheduler = mayHaveScheduler ? schedulerOf(outcomes, program) : undefined;
  let key: string | undefined;
  return {
    // A proof needs none.
    get key() {
      key ??= keyOf(branches, affinity, scheduler);
      return key;
    },
    branches,
    ...(affinity === undefined ? {} : { affinity }),
    ...(scheduler === undefined ? {} : { scheduler }),
  };
}

function keyOf(branches: readonly Branch[], affinity: string | undefined, scheduler: string | undefined): string {
  const clauses = [
    branchesKey(branches),
    affinity === undefined ? '' : `affinity ${affinity}`,
    scheduler === undefined ? '' : `scheduler ${scheduler}`,
  ];
  return clauses.filter(Boolean).join('; ');
}

/** What any virtual server, frontend or rule of a program can have. */
const traitsOf = perObject((program: NodeProgram) => ({
  mayHaveScheduler: planesOf(program).some((plane) => plane.mayHaveScheduler(program)),
  mayHaveAffinity: planesOf(program).some((plane) => plane.mayHaveAffinity(program)),
}));

/** Traces the packet. @param remembers the affinity entry of a returning client; undefined for a new client */
type TraceClient = (remembers: string | undefined) => readonly Outcome[];

/** The scheduler of a connection; undefined with a single endpoint. */
function schedulerOf(outcomes: readonly Outcome[], program: NodeProgram): string | undefined {
  if (outcomes.length < 2) return undefined;
  const names = planesOf(program).flatMap((plane) => plane.schedulersOn(outcomes, program));
  return names.length === 0 ? undefined : [...new Set(names)].toSorted(compareText).join(', ');
}

function branchesOf(outcomes: readonly Outcome[]): readonly Branch[] {
  return sortShort(outcomes.map(branchOf), compareBranches);
}

function branchOf({ verdict, to, masquerade, probability, path }: Outcome): Branch {
  // Nearly all branches lead to an endpoint.
  if (to !== undefined && verdict !== 'reject') return { verdict, to, masquerade, share: probability };
  const reject = verdict === 'reject' ? rejection(path) : undefined;
  return {
    verdict,
    ...(to === undefined ? {} : { to }),
    masquerade,
    share: probability,
    ...(reject === undefined ? {} : { reject }),
  };
}

const compareBranches = (a: Branch, b: Branch): number =>
  compareText(a.to ?? '', b.to ?? '') || compareText(labelOf(a), labelOf(b));

/** Shares to seven digits: rules give probabilities to ten, of which the kernel keeps 31 bits. */
function branchesKey(branches: readonly Branch[]): string {
  return branches.map((branch) => `${labelOf(branch)} ${branch.to ?? ''} ${shareText(branch.share)}`).join(' | ');
}

/** The last share as a text: endpoints of one list mostly have equal ones. */
let lastShare = { share: 1, text: (1).toFixed(7) };

function shareText(share: number): string {
  if (lastShare.share !== share) lastShare = { share, text: share.toFixed(7) };
  return lastShare.text;
}

const labelOf = ({ verdict, masquerade, reject }: Branch): string =>
  `${masquerade ? 'masquerade ' : ''}${verdict}${reject === undefined ? '' : ` ${reject}`}`;

function rejection(path: readonly RuleHit[]): string | undefined {
  const last = path.at(-1);
  if (last?.reason !== undefined) return last.reason;
  const rule = readRule(path.at(-1)?.rule ?? '', undefined, 'program');
  return !isRuleError(rule) && rule.target?.kind === 'reject' ? rule.target.with : undefined;
}

/**
 * The effect of affinity on a returning client, for each endpoint.
 * @returns `10800 s` when every endpoint keeps its clients that long; otherwise a clause per endpoint; undefined without affinity
 */
function affinityOf(
  traceClient: TraceClient,
  outcomes: readonly Outcome[],
  program: NodeProgram,
): Affinity | undefined {
  const clauses = new Map(
    outcomes.flatMap((outcome) => {
      const names = recentNames(outcome.path, 'set');
      const kept = [
        ...names.map((name) => affinityText(outcome, traceClient(name), name)),
        ...keptOutsideRules(traceClient, outcome, program),
      ];
      return outcome.verdict === 'dnat' || kept.length > 0
        ? [[outcome.to ?? outcome.verdict, [...new Set(kept)].join(' and ') || none] as const]
        : [];
    }),
  );
  const [first, ...others] = new Set(clauses.values());
  if (others.length === 0) return first === none ? undefined : first;
  return [...clauses]
    .map(([to, clause]) => `${to} ${clause}`)
    .toSorted(compareText)
    .join(', ');
}

/** What virtual servers and frontends keep: the path of a connection names them. */
function keptOutsideRules(traceClient: TraceClient, outcome: Outcome, program: NodeProgram): readonly string[] {
  if (outcome.verdict !== 'dnat') return [];
  const seconds = planesOf(program).flatMap((plane) => plane.secondsOn(outcome, program));
  return seconds.map((one) => keptText(outcome, traceClient(outcome.to), `${one} s`));
}

const none = 'not kept';

/** How long a client keeps an outcome. @param again the outcomes of its next connection, with an entry in the list `name` */
function affinityText(outcome: Outcome, again: readonly Outcome[], name: string): string {
  const isChecked = again.some(({ path }) => recentNames(path, 'rcheck').includes(name));
  if (!isChecked) return none;
  // Of iptables the check has the time, of nftables the entry.
  const seconds = Math.min(...[outcome, ...again].flatMap(({ path }) => recentSeconds(path, name)));
  const isRenewed = again.every(({ path }) => recentNames(path, 'set').includes(name));
  const time = Number.isFinite(seconds) ? `${seconds} s` : 'for good';
  return keptText(outcome, again, isRenewed ? time : `${time}, not renewed`);
}

function keptText(outcome: Outcome, again: readonly Outcome[], wait: string): string {
  const kept = again.length === 1 && again[0]?.to === outcome.to && again[0]?.masquerade === outcome.masquerade;
  return kept ? wait : `${wait} to ${branchesKey(branchesOf(again))}`;
}

function recentNames(path: readonly RuleHit[], action: 'set' | 'rcheck'): readonly string[] {
  return recentMatches(path).flatMap((match) => (match.action === action ? [match.name] : []));
}

function recentSeconds(path: readonly RuleHit[], name: string): readonly number[] {
  return recentMatches(path).flatMap((match) =>
    match.name === name && match.seconds !== undefined ? [match.seconds] : [],
  );
}

interface RecentMatch {
  readonly action: string;
  readonly name: string;
  readonly seconds?: number;
}

const recentMatches = (path: readonly RuleHit[]): readonly RecentMatch[] => {
  const found: RecentMatch[] = [];
  // Nearly no rule has one, and hundreds of thousands of paths are asked.
  for (const { rule: text, recent } of path) {
    if (recent) found.push(recent);
    else if (text.includes(' -m recent ')) {
      const rule = readRule(text, undefined, 'program');
      if (!isRuleError(rule)) for (const match of rule.matches) if (match.kind === 'recent') found.push(match);
    }
  }
  return found;
};
