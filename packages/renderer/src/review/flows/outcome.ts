import {
  compareText,
  type IpvsState,
  isRuleError,
  type NftFrontend,
  type NftState,
  type Outcome,
  type Packet,
  printScheduler,
  readFrontend,
  readRule,
  type RuleHit,
  trace,
  type VirtualServer,
  perObject,
} from '@sluice/netfilter';
import type { Affinity, Branch, FlowOutcome } from './flow.ts';
import type { NodeProgram } from './program.ts';

/**
 * Traces the connections that start with a packet: every branch with its share, and the effect of affinity on a returning client.
 * @throws TraceError for rules that the tracer does not understand
 */
export function outcomeOf(program: NodeProgram, packet: Packet, localAddresses: readonly string[]): FlowOutcome {
  const traceClient: TraceClient = (remembers) =>
    trace(program.rules, remembers === undefined ? packet : { ...packet, remembers }, {
      localAddresses,
      ipvs: program.ipvs,
      nft: program.nft,
      live: program.live,
    });
  const outcomes = traceClient(undefined);
  const branches = branchesOf(outcomes);
  const affinity =
    program.live !== undefined || mayHaveAffinity(program) ? affinityOf(traceClient, outcomes, program) : undefined;
  const scheduler = mayHaveScheduler(program) ? schedulerOf(outcomes, program) : undefined;
  const clauses = [
    keyOf(branches),
    affinity === undefined ? '' : `affinity ${affinity}`,
    scheduler === undefined ? '' : `scheduler ${scheduler}`,
  ];
  return {
    key: clauses.filter(Boolean).join('; '),
    branches,
    ...(affinity === undefined ? {} : { affinity }),
    ...(scheduler === undefined ? {} : { scheduler }),
  };
}

/** Whether any virtual server or frontend of a program can have a scheduler. */
const mayHaveScheduler = perObject(
  ({ ipvs, nft }: NodeProgram): boolean => ipvs !== undefined || (nft !== undefined && hasLine(nft, 'scheduler ')),
);

const hasLine = ({ frontends }: NftState, word: string): boolean =>
  [...frontends.values()].some((lines) => lines.some((line) => line.startsWith(word)));

/** Whether any rule or virtual server of a program can have session affinity. */
const mayHaveAffinity = perObject(({ rules, ipvs, nft }: NodeProgram): boolean => {
  if (nft) return hasLine(nft, 'affinity ');
  const chains = [rules.nat, rules.filter].flatMap((table) => [...table.chains.values(), table.jumps]);
  return ipvs !== undefined || chains.some((lines) => lines.some((line) => line.includes(' -m recent ')));
});

/** Traces the packet. @param remembers the affinity entry of a returning client; undefined for a new client */
type TraceClient = (remembers: string | undefined) => readonly Outcome[];

/** The scheduler of a connection; undefined with a single endpoint. */
function schedulerOf(outcomes: readonly Outcome[], { ipvs, nft }: NodeProgram): string | undefined {
  if (outcomes.length < 2) return undefined;
  const names = [
    ...(ipvs ? outcomes.flatMap((outcome) => serversOn(outcome, ipvs).map(printScheduler)) : []),
    ...(nft ? frontendsOn(outcomes, nft).flatMap(({ scheduler }) => scheduler ?? []) : []),
  ];
  return names.length === 0 ? undefined : [...new Set(names)].toSorted(compareText).join(', ');
}

function serversOn({ path }: Outcome, ipvs: IpvsState): readonly VirtualServer[] {
  return path.flatMap(({ table, chain }) => (table === 'ipvs' ? (ipvs.virtualServers.get(chain) ?? []) : []));
}

function branchesOf(outcomes: readonly Outcome[]): readonly Branch[] {
  return outcomes
    .map(({ verdict, to, masquerade, probability, path }): Branch => {
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
    })
    .toSorted((a, b) => compareText(a.to ?? '', b.to ?? '') || compareText(labelOf(a), labelOf(b)));
}

/** Shares to seven digits: rules give probabilities to ten, of which the kernel keeps 31 bits. */
function keyOf(branches: readonly Branch[]): string {
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
  if (last?.table === 'nftables') return last.reason;
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
  { ipvs, nft }: NodeProgram,
): Affinity | undefined {
  const clauses = new Map(
    outcomes.flatMap((outcome) => {
      const names = recentNames(outcome.path, 'set');
      const kept = [
        ...names.map((name) => affinityText(outcome, traceClient(name), name)),
        ...(ipvs === undefined ? [] : persistenceOf(traceClient, outcome, ipvs)),
        ...(nft === undefined ? [] : stickinessOf(traceClient, outcome, nft)),
      ];
      return outcome.verdict === 'dnat' || kept.length > 0
        ? [[outcome.to ?? outcome.verdict, kept.join(' and ') || none] as const]
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

/** IPVS persistence keeps the endpoint of each client. */
function persistenceOf(traceClient: TraceClient, outcome: Outcome, ipvs: IpvsState): readonly string[] {
  if (outcome.verdict !== 'dnat') return [];
  return serversOn(outcome, ipvs).flatMap(({ persistence }) =>
    persistence === undefined ? [] : [keptText(outcome, traceClient(outcome.to), `${persistence} s`)],
  );
}

/** In mode nftables a frontend remembers the endpoint of each client: the path names the frontend. */
function stickinessOf(traceClient: TraceClient, outcome: Outcome, nft: NftState): readonly string[] {
  if (outcome.verdict !== 'dnat') return [];
  return frontendsOn([outcome], nft).flatMap(({ affinitySeconds: seconds }) =>
    seconds === undefined ? [] : [keptText(outcome, traceClient(outcome.to), `${seconds} s`)],
  );
}

/** The frontends on some paths, each once. */
function frontendsOn(outcomes: readonly Outcome[], { frontends }: NftState): readonly NftFrontend[] {
  const hits = outcomes.flatMap(({ path }) => path).filter(({ chain }) => /^(?:svc|out)[46]$/.test(chain));
  const keys = new Set(hits.map(({ rule }) => rule.slice(0, rule.indexOf(' : '))));
  return [...keys].flatMap((key) => {
    const lines = frontends.get(key);
    return lines ? [readFrontend(key, lines)] : [];
  });
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
  return kept ? wait : `${wait} to ${keyOf(branchesOf(again))}`;
}

function recentNames(path: readonly RuleHit[], action: 'set' | 'rcheck'): readonly string[] {
  return recentMatches(path).flatMap((match) => (match.action === action ? [match.name] : []));
}

function recentSeconds(path: readonly RuleHit[], name: string): readonly number[] {
  return recentMatches(path).flatMap((match) =>
    match.name === name && match.seconds !== undefined ? [match.seconds] : [],
  );
}

function recentMatches(path: readonly RuleHit[]): readonly { action: string; name: string; seconds?: number }[] {
  return path.flatMap(({ rule: text, recent }) => {
    if (recent) return [recent];
    if (!text.includes(' -m recent ')) return [];
    const rule = readRule(text, undefined, 'program');
    return isRuleError(rule) ? [] : rule.matches.filter((match) => match.kind === 'recent');
  });
}
