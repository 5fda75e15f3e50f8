import {
  type CauseCode,
  compareText,
  type Effort,
  type Finding,
  nftDnatPriority,
  type RuleOwner,
  type Unread,
} from '@sluice/netfilter';
import type { DesiredFacts, Facts, SavedTable } from '../facts.ts';
import { type FollowedPacket, listenerAt, localAddresses, type Origin, translatesFirst } from '../packets.ts';
import {
  dnatPriority,
  type HookName,
  type HookPacket,
  meetIptables,
  type Meeting,
  meetNft,
  tool,
} from '../meetings.ts';
import { printFrontendOf } from '../target.ts';

/** A hook of the kernel that a packet passes, with the tables of iptables there. */
interface Passed {
  readonly hook: HookName;
  readonly tables: readonly string[];
  readonly packet: HookPacket;
}

/**
 * Foreign rules in the way of packets to Services: each packet is followed through all tables of both rule stores and all base chains of
 * nftables, there and back. Rules that decide in every case are causes; rules that perhaps decide are none, or every firewall would be one.
 */
export function foreignRules(
  packets: readonly FollowedPacket[],
  desired: DesiredFacts,
  facts: Facts,
): { readonly findings: readonly Finding[]; readonly unread: readonly Unread[] } {
  const { rules, lost } = deciding(packets, desired, facts);
  const findings = rules.map((one) => findingOf(one, facts.ruleCounters));
  const partial = [...cutChains(facts), ...unprintedTables(facts)];
  if (lost === 0) return { findings, unread: partial };
  const because = `${lost} of ${packets.length} packets meet more rules than are judged`;
  return { findings, unread: [...partial, { what: 'foreign rules to their end', because }] };
}

/** What packets meet in these is not known. */
const unprintedTables = ({ unprinted = [] }: Facts): readonly Unread[] =>
  unprinted.map(({ table, rules }) => ({
    what: `rules of table ${table} in store nft`,
    because: `iptables-nft-save cannot print it beside ${rules[0]?.rule ?? 'rules of another program'}`,
  }));

/** Of these the first rules are judged, and what follows is not known. */
function cutChains({ tables = [], nftTables = [] }: Facts): readonly Unread[] {
  const inStores = tables.flatMap((table) =>
    [...table.chains].flatMap(([name, { isCut }]) => (isCut ? [`${tool(table)} ${name}`] : [])),
  );
  const inNft = nftTables.flatMap(({ family, name, cut = [] }) => cut.map((chain) => `nft ${family} ${name} ${chain}`));
  const all = [...inStores, ...inNft];
  const more = all.length > 3 ? ` and ${all.length - 3} more` : '';
  if (all.length === 0) return [];
  return [{ what: 'all foreign rules', because: `there are too many in ${all.slice(0, 3).join(', ')}${more}` }];
}

/** A foreign rule that decides, and the packets that meet it. */
interface Deciding {
  readonly meeting: Meeting;
  readonly packets: readonly FollowedPacket[];
}

/**
 * Rules that are judged in one examination, each for each packet that meets it: some seconds of a processor. Of 288 packets, the most that
 * are followed, each may meet 14,000, where the whole ruleset of a node with Calico or a block list in rules has some thousands.
 */
const judgedMax = 4_000_000;

/** The foreign rules that decide about packets in every case, each once, and how many packets met too many rules to be followed to their end. */
export function deciding(
  packets: readonly FollowedPacket[],
  desired: DesiredFacts,
  facts: Facts,
): { readonly rules: readonly Deciding[]; readonly lost: number } {
  const found = new Map<string, { readonly meeting: Meeting; readonly packets: FollowedPacket[] }>();
  let lost = 0;
  for (const followed of packets) {
    // An equal part for each, so that no chain takes that of packets which do not meet it.
    const effort: Effort = { left: Math.floor(judgedMax / packets.length) };
    for (const passed of hooksOf(followed, desired.mode)) {
      for (const meeting of meet(passed, desired, facts, effort)) {
        if (!meeting.isCertain) continue;
        const one = found.get(meeting.rule) ?? { meeting, packets: [] };
        one.packets.push(followed);
        found.set(meeting.rule, one);
      }
    }
    if (effort.left < 0) lost++;
  }
  return { rules: [...found.values()], lost };
}

const codes = {
  drop: 'FOREIGN_DROP',
  translate: 'FOREIGN_TRANSLATION',
  exempt: 'FOREIGN_TRANSLATION',
  notrack: 'FOREIGN_NOTRACK',
} as const satisfies Record<Meeting['kind'], CauseCode>;

const origins = {
  node: 'a process of this node',
  pod: 'a pod of this node',
  outside: 'a client outside of the cluster',
} as const satisfies Record<Origin, string>;

function findingOf({ meeting, packets }: Deciding, counters: Facts['ruleCounters']): Finding {
  const { kind, rule, fix, owner, counted = counters?.get(rule) } = meeting;
  const ways = [
    ...new Set(
      packets.map(
        ({ origin, frontend }) =>
          `meets packets from ${origins[origin]} to ${frontend.service ?? ''} ${printFrontendOf(frontend)}`,
      ),
    ),
  ];
  const evidence = [rule, ...ownedBy(owner), ...counts(counted), ...ways.toSorted(compareText)];
  return { code: codes[kind], certainty: 'certain', about: rule, evidence, fix };
}

/** Rules of a known owner are changed there: it writes them again, and they may be there on purpose. */
export const ownedBy = (owner: RuleOwner | undefined): readonly string[] =>
  owner ? [`it belongs to ${owner.name}, for ${owner.does}: change it there`] : [];

/** What the rule has done besides the prediction: other packets may meet it, too. */
const counts = (counted: number | undefined): readonly string[] =>
  counted === undefined
    ? []
    : [counted === 0 ? 'it has counted no packet yet' : `it has counted ${counted} packet${counted === 1 ? '' : 's'}`];

/**
 * In mode ipvs a packet from another machine or pod is for the node itself until INPUT, where virtual servers take it; they send it on as
 * if the node did (`ip_vs_nat_send_or_cont` in `net/netfilter/ipvs/ip_vs_xmit.c`).
 */
function hooksOf(
  { origin, request, translated, reply }: FollowedPacket,
  mode: DesiredFacts['mode'],
): readonly Passed[] {
  const isFromNode = origin === 'node';
  const first: Passed = isFromNode
    ? { hook: 'OUTPUT', tables: ['raw', 'mangle', 'nat'], packet: request }
    : { hook: 'PREROUTING', tables: ['raw', 'mangle', 'nat'], packet: request };
  if (!translated || !reply) return [first];
  const decided = ['mangle', 'filter', 'security'];
  return [
    first,
    ...(isFromNode
      ? [{ hook: 'OUTPUT' as const, tables: ['filter', 'security'], packet: translated }]
      : mode === 'ipvs'
        ? [
            { hook: 'INPUT' as const, tables: decided, packet: request },
            { hook: 'OUTPUT' as const, tables: decided, packet: { ...translated, in: '' } },
          ]
        : [
            {
              hook: translated.isToNode ? ('INPUT' as const) : ('FORWARD' as const),
              tables: decided,
              packet: translated,
            },
          ]),
    ...(translated.isToNode ? [] : [{ hook: 'POSTROUTING' as const, tables: ['mangle'], packet: translated }]),
    ...(translated.isToNode
      ? [{ hook: 'OUTPUT' as const, tables: ['raw', 'mangle', 'filter', 'security'], packet: reply }]
      : [
          { hook: 'PREROUTING' as const, tables: ['raw', 'mangle'], packet: reply },
          { hook: isFromNode ? ('INPUT' as const) : ('FORWARD' as const), tables: decided, packet: reply },
        ]),
  ];
}

function meet(
  { hook, tables, packet }: Passed,
  desired: DesiredFacts,
  facts: Facts,
  effort: Effort,
): readonly Meeting[] {
  const inStores = (facts.tables ?? [])
    .filter((table) => table.family === packet.family && tables.includes(table.table))
    .flatMap((table) => meetIptables(table, hook, packet, ownChains(table, desired), effort))
    // Sluice's table translates first there: what has its translation passes no other nat chain.
    .filter(({ table }) => !translatesFirst(desired) || table !== 'nat');
  // After translation the nat chains of nftables were passed already.
  const servicesAt = translatesFirst(desired) ? nftDnatPriority : dnatPriority;
  const inNft = meetNft(facts.nftTables ?? [], hook, packet, effort, servicesAt).filter(
    ({ kind }) => kind === 'drop' || !packet.isTranslated || (kind === 'notrack' && packet.isReply),
  );
  const met = [...inStores, ...inNft];
  return isServedHere(packet, facts) ? met.filter(({ kind }) => kind !== 'notrack') : met;
}

/**
 * Whether a process of this node listens on the address that a packet is sent to, and the node has the address: NodeLocal DNSCache takes
 * packets to a cluster IP so, and its NOTRACK keeps them from being translated on purpose.
 */
function isServedHere({ destination, source, port, protocol, isToNode, isReply }: HookPacket, facts: Facts): boolean {
  const address = isReply ? source : destination;
  const isHere = isReply ? address !== undefined && localAddresses(facts).includes(address) : isToNode;
  return isHere && listenerAt({ address, port, protocol }, facts) !== undefined;
}

/** Chains of the active generation, in its store. Chains of single Services are not in the facts. */
function ownChains(
  { store, family, table }: SavedTable,
  { store: own, state }: DesiredFacts,
): (chain: string) => boolean {
  if (store !== own) return () => false;
  const program = state.families[family];
  const chains = table === 'nat' || table === 'filter' ? program?.[table].chains : undefined;
  return (chain) => chains?.has(chain) === true || /^SLU(?:ICE)?-/.test(chain);
}
