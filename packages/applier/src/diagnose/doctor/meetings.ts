import {
  type BaseChain,
  conntrackPriority,
  deletionOf,
  type Effort,
  type Family,
  iptablesTable,
  type Judge,
  type LiveHook,
  type LiveRule,
  type LiveTable,
  ownerOf,
  ownerOfPolicy,
  parseAddress,
  readLiveTable,
  type RuleHit,
  type RuleOwner,
  type TraceFlow,
  type TransportProtocol,
  untouched,
  walkBase,
  wordsOf,
} from '@sluice/netfilter';
import type { NftTableFacts, SavedTable } from './facts.ts';

/** A packet at one hook. What is not known is left out: a rule that asks for it matches perhaps. */
export interface HookPacket {
  readonly family: Family;
  readonly protocol: TransportProtocol;
  readonly source: string | undefined;
  readonly destination: string;
  /** Of a request the destination port; a reply has it as source port. */
  readonly port: number;
  readonly isReply: boolean;
  /** Where its connection was sent before translation. */
  readonly original: { readonly destination: string; readonly port: number };
  /** `''`: a process of the node sends it, so that there is none. */
  readonly in: string | undefined;
  /** `''`: it is for the node itself. */
  readonly out: string | undefined;
  /** Whether a Service's rules translated it. */
  readonly isTranslated: boolean;
  readonly isMasqueraded: boolean;
  /** Whether the destination is an address of the node. */
  readonly isToNode: boolean;
}

/** A foreign rule that decides about a packet, in every case or perhaps. */
export interface Meeting {
  readonly kind: 'drop' | 'translate' | 'exempt' | 'notrack';
  /** False: an earlier rule may take the packet first, or the rule may not match. */
  readonly isCertain: boolean;
  /** As a tool prints it, with the tool: `iptables-nft -t filter -A FORWARD -j DROP`. */
  readonly rule: string;
  /** A command that removes it, or makes it harmless; of a known owner one that shows why it is there. */
  readonly fix: string;
  /** The program that wrote it, where it is recognised. */
  readonly owner?: RuleOwner;
  /** The table of iptables that has it: `filter`. */
  readonly table?: string;
  /** How many packets it counted; left out: it has no counter, or that is read by the table. */
  readonly counted?: number;
}

export type HookName = BaseChain['hook'];

/** Whether a chain is Sluice's own, by its name. */
type IsOwn = (chain: string) => boolean;

/** Where iptables translates destinations, as the kernel's headers say (`NF_IP_PRI_NAT_DST`). */
export const dnatPriority = -100;

/**
 * The foreign rules of one built-in chain that decide about a packet. Sluice's own chains are known: in nat they translate packets of
 * Services, so the rest of the chain does not count; in filter FORWARD they accept masqueraded packets and replies.
 * @param effort is used up
 */
export function meetIptables(
  table: SavedTable,
  hook: HookName,
  packet: HookPacket,
  isOwn: IsOwn,
  effort: Effort,
): readonly Meeting[] {
  const live = liveOf(table, isOwn);
  const met: Meeting[] = [];
  const ends = table.table === 'nat' || (table.table === 'filter' && hook === 'FORWARD' && isOwnsPacket(packet));
  const own = (chain: string): 'ends' | 'passes' | undefined => (isOwn(chain) ? (ends ? 'ends' : 'passes') : undefined);
  const meet: Judge['meet'] = (rule, decision, share) => {
    const kind = decision !== 'accept' ? decision : exempts(table, hook) ? 'exempt' : undefined;
    if (kind === undefined) return;
    const [text, fix] = rule
      ? [rule.text, removal(table, rule.text)]
      : [`-P ${hook} DROP`, `${tool(table)} -P ${hook} ACCEPT`];
    const owned = ownedIn(live, rule);
    met.push({ kind, isCertain: isWhole(share), rule: `${tool(table)} ${text}`, fix, table: table.table, ...owned });
  };
  for (const base of basesAt(live, hook)) {
    const one = judged(packet, base);
    if (one) walkBase(live, base, one.flow, one.hook, { meet, own, effort });
  }
  return met;
}

/** Shares of chance may add up to slightly less than a whole. */
const isWhole = (share: number): boolean => share > 0.999_999;

/** The owner of a rule, and its command in place of a removal. Of a policy, and of a rule for all packets, the table tells it. */
function ownedIn(table: LiveTable, rule: LiveRule | undefined): Partial<Pick<Meeting, 'owner' | 'fix'>> {
  const isForAll = !rule || (rule.tests.length === 0 && rule.sources.length === 0);
  const known = rule && ownerOf(rule.hit);
  const owner = known ?? (isForAll ? ownerOfPolicy(foreignHits(table)) : undefined);
  return owner ? { owner, fix: owner.inspect } : {};
}

const foreignHits = (table: LiveTable): readonly RuleHit[] =>
  [...table.chains.values()].flatMap((chain) => chain.rules().flatMap(({ isProxys, hit }) => (isProxys ? [] : [hit])));

/** What Sluice's rules in filter FORWARD accept. */
const isOwnsPacket = ({ isTranslated, isMasqueraded, isReply }: HookPacket): boolean =>
  isTranslated && (isMasqueraded || isReply);

/** In nat a foreign ACCEPT before our jump exempts the packet from translation; in other tables it is only a verdict. */
const exempts = ({ table }: SavedTable, hook: string): boolean => table === 'nat' && hook !== 'POSTROUTING';

/**
 * The foreign rules of all base chains of a hook that decide about a packet. An accept ends one base chain only; a drop is final.
 * @param effort is used up
 * @param servicesAt the priority at which destinations of Services are translated
 */
export function meetNft(
  tables: readonly NftTableFacts[],
  hook: HookName,
  packet: HookPacket,
  effort: Effort,
  servicesAt = dnatPriority,
): readonly Meeting[] {
  const met: Meeting[] = [];
  for (const facts of tables) {
    if (!holdsFamily(facts, packet.family)) continue;
    const live = liveTable(facts);
    for (const base of basesAt(live, hook)) {
      const meet: Judge['meet'] = (rule, kind, share) => {
        // A translation harms only where it comes before that of Services.
        if (kind === 'accept' || (kind === 'translate' && base.priority > servicesAt)) return;
        // Behind connection tracking `notrack` does nothing.
        if (kind === 'notrack' && base.priority >= conntrackPriority) return;
        // Which of two chains with one priority comes first depends on who made them first.
        const isFirst = kind !== 'translate' || base.priority < servicesAt;
        const owner = ownerOf(rule ? rule.hit : live.policyHit(base));
        const owned = owner ? { owner, fix: owner.inspect } : {};
        met.push({ kind, isCertain: isWhole(share) && isFirst, ...placeIn(facts, base, rule), ...owned });
      };
      const one = judged(packet, base);
      if (one) walkBase(live, base, one.flow, one.hook, { meet, effort });
    }
  }
  return met;
}

const holdsFamily = ({ family }: NftTableFacts, packet: Family): boolean =>
  family === 'inet' || family === (packet === 'ipv4' ? 'ip' : 'ip6');

function placeIn(
  { family, name }: NftTableFacts,
  base: BaseChain,
  rule: LiveRule | undefined,
): Pick<Meeting, 'rule' | 'fix' | 'counted'> {
  const table = `${family} ${name}`;
  if (!rule)
    return {
      rule: `nft chain ${table} ${base.chain}: hook ${base.hook.toLowerCase()}, policy drop`,
      fix: `nft chain ${table} ${base.chain} '{ policy accept ; }'`,
    };
  const { chain = '', handle, counted } = rule.listed ?? {};
  const at = `${table} ${chain} handle ${handle}`;
  return {
    rule: `nft rule ${at} (${short(rule.text)})`,
    fix: `nft delete rule ${at}`,
    ...(counted === undefined ? {} : { counted }),
  };
}

/** A set in a rule may have thousands of elements. */
const short = (text: string): string => (text.length > 120 ? `${text.slice(0, 120)} …` : text);

const basesAt = ({ bases }: LiveTable, hook: HookName): readonly BaseChain[] =>
  bases.filter((base) => base.hook === hook);

/** Each packet meets the same tables: their rules are read once. */
const read = new WeakMap<object, LiveTable>();

function once<T extends object>(facts: T, make: (facts: T) => LiveTable): LiveTable {
  const known = read.get(facts) ?? make(facts);
  read.set(facts, known);
  return known;
}

const liveOf = (table: SavedTable, isOwn: IsOwn): LiveTable =>
  once(table, ({ store, family, table: name, chains }) => {
    const live = iptablesTable({
      store,
      family,
      name,
      policies: new Map([...chains].map(([chain, { policy }]) => [chain, policy])),
      rules: new Map([...chains].map(([chain, { rules }]) => [chain, rules])),
      sets: new Map(),
      hasChain: (chain) => chains.has(chain) || isOwn(chain),
    });
    return cutAt(live, (chain) => chains.get(chain)?.isCut);
  });

const liveTable = (table: NftTableFacts): LiveTable =>
  once(table, (listed) => cutAt(readLiveTable(listed), (chain) => listed.cut?.includes(chain)));

const cutAt = (table: LiveTable, isCut: (chain: string) => boolean | undefined): LiveTable => ({
  ...table,
  chains: new Map(
    [...table.chains].map(([name, chain]) => [name, isCut(name) ? { ...chain, isCut: true } : chain] as const),
  ),
});

/**
 * Marks are not known: Sluice's rules and other tables may have set them.
 * @returns undefined where the destination is no address, so that no rule is blamed for its packets
 */
function judged(
  packet: HookPacket,
  { hook: name, type, priority }: BaseChain,
): { readonly flow: TraceFlow; readonly hook: LiveHook } | undefined {
  const { family, protocol, port, isReply, isTranslated, isToNode } = packet;
  const destination = parseAddress(packet.destination);
  const source = packet.source === undefined ? undefined : parseAddress(packet.source);
  if (!destination) return undefined;
  return {
    flow: {
      source: source ?? destination,
      destination,
      port,
      ...untouched,
      translated: isTranslated,
      masquerade: packet.isMasqueraded,
    },
    hook: {
      name,
      type,
      priority,
      family,
      protocol,
      in: packet.in,
      hidden: { source: source === undefined, mark: true },
      isReply,
      // What comes in by an interface comes by the route back to its source.
      outOf: ({ text }) => (text === destination.text ? packet.out : packet.in || undefined),
      remembers: undefined,
      state: isReply ? 'ESTABLISHED' : 'NEW',
      isLocal: ({ text }) => (text === destination.text ? isToNode : packet.in === '' && !isReply),
      original: { destination: parseAddress(packet.original.destination) ?? destination, port: packet.original.port },
      // Its effort bounds how many rules it meets.
      notes: { doubts: new Map(), untracking: new Set(), assumed: new Set(), met: { rules: Number.NEGATIVE_INFINITY } },
    },
  };
}

export const tool = ({ store, family, table }: SavedTable): string =>
  `${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${store} -t ${table}`;

/** The command that removes a rule. For a shell: a comment of a rule may hold `$(…)`, which double quotes would let it run. */
export const removal = (table: SavedTable, text: string): string =>
  `${tool(table)} ${wordsOf(deletionOf(text))
    .map((word) => shellWord(word.text))
    .join(' ')}`;

const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) || word === '!' ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
