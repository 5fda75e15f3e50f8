import { type Family, harmlessTargets, wordsOf } from '@sluice/netfilter';
import { type HookPacket, type Meeting } from './packet.ts';
import { readForeign, type ReadRule } from './iptables-rule.ts';
import { type Decision, type Effort, type JudgedRule, type Verdict, walkChain } from './walk.ts';

/** One table of a rule store, as `iptables-save -c` prints it. */
export interface SavedTable {
  readonly store: 'nft' | 'legacy';
  readonly family: Family;
  readonly table: string;
  readonly chains: ReadonlyMap<string, SavedChain>;
}

export interface SavedChain {
  /** `ACCEPT`, `DROP`; `-` for a chain that is not built in. */
  readonly policy: string;
  /** Without counters. */
  readonly rules: readonly string[];
  /** It has further rules, which were not read. */
  readonly isCut?: true;
}

/** Whether a chain is Sluice's own, by its name. */
export type IsOwn = (chain: string) => boolean;

/** One built-in chain, and a packet that meets it. */
interface Place {
  readonly table: SavedTable;
  readonly hook: string;
  readonly packet: HookPacket;
  readonly isOwn: IsOwn;
}

interface SavedRule extends JudgedRule<SavedRule> {
  /** As `iptables-save` prints it. */
  readonly text: string;
}

/**
 * The foreign rules of one built-in chain that decide about a packet. Sluice's own chains are known: in nat they translate packets of
 * Services, so the rest of the chain does not count; in filter FORWARD they accept masqueraded packets and replies.
 */
export function walkIptables(
  table: SavedTable,
  hook: string,
  packet: HookPacket,
  isOwn: IsOwn,
  effort: Effort,
): readonly Meeting[] {
  const chain = table.chains.get(hook);
  if (!chain) return [];
  const met: Meeting[] = [];
  const meet = ({ text }: SavedRule, decision: Decision, isCertain: boolean): void => {
    const kind = decision !== 'accept' ? decision : exempts(table, hook) ? 'exempt' : undefined;
    if (kind)
      met.push({ kind, isCertain, rule: `${tool(table)} ${text}`, fix: removal(table, text), table: table.table });
  };
  const left = walkChain(rulesOf({ table, hook, packet, isOwn }, chain), meet, effort);
  if (!left.isEnded && chain.policy === 'DROP') {
    met.push({
      kind: 'drop',
      isCertain: left.isSure,
      rule: `${tool(table)} -P ${hook} DROP`,
      fix: `${tool(table)} -P ${hook} ACCEPT`,
      table: table.table,
    });
  }
  return met;
}

function* rulesOf(place: Place, chain: SavedChain): Generator<SavedRule> {
  for (const { text, rule } of readChain(chain))
    yield { text, match: rule.matches(place.packet), verdict: verdictOf(rule, place) };
  if (chain.isCut) yield { text: '', match: 'perhaps', verdict: { kind: 'unknown' } };
}

/** Each packet meets the same rules: they are read once. Rules without a target change nothing. */
function readChain(chain: SavedChain): readonly TextRule[] {
  const known = read.get(chain);
  if (known) return known;
  const rules = chain.rules.flatMap((text) => {
    const rule = readForeign(text);
    return rule ? [{ text, rule }] : [];
  });
  read.set(chain, rules);
  return rules;
}

interface TextRule {
  readonly text: string;
  readonly rule: ReadRule;
}

const read = new WeakMap<SavedChain, readonly TextRule[]>();

function verdictOf({ target, isGoto }: ReadRule, place: Place): Verdict<SavedRule> {
  if (place.isOwn(target)) return { kind: endsAtOwn(place) ? 'own' : 'none' };
  const kind = Object.hasOwn(kinds, target) ? kinds[target] : undefined;
  if (kind) return { kind };
  const called = place.table.chains.get(target);
  if (called) return { kind: isGoto ? 'goto' : 'jump', called: rulesOf(place, called) };
  return { kind: harmless.has(target) ? 'none' : 'unknown' };
}

const kinds: Readonly<Record<string, 'accept' | 'drop' | 'translate' | 'notrack' | 'return'>> = {
  ACCEPT: 'accept',
  DROP: 'drop',
  REJECT: 'drop',
  DNAT: 'translate',
  REDIRECT: 'translate',
  NETMAP: 'translate',
  NOTRACK: 'notrack',
  RETURN: 'return',
};

/** Targets after which a packet goes on to the same place. A rule that asks for a mark matches perhaps. */
const harmless = new Set([...harmlessTargets, 'MARK', 'CONNMARK', 'CT', 'MASQUERADE', 'SNAT']);

/** In nat a foreign ACCEPT before our jump exempts the packet from translation; in other tables it is only a verdict. */
const exempts = ({ table }: SavedTable, hook: string): boolean => table === 'nat' && hook !== 'POSTROUTING';

const endsAtOwn = ({ table: { table }, hook, packet }: Place): boolean =>
  table === 'nat' ||
  (table === 'filter' && hook === 'FORWARD' && packet.isTranslated && (packet.isMasqueraded || packet.isReply));

export const tool = ({ store, family, table }: SavedTable): string =>
  `${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${store} -t ${table}`;

/** The command that removes a rule. For a shell: a comment of a rule may hold `$(…)`, which double quotes would let it run. */
export const removal = (table: SavedTable, text: string): string =>
  `${tool(table)} ${wordsOf(text.replace(/^-A /, '-D '))
    .map((word) => shellWord(word.text))
    .join(' ')}`;

const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) || word === '!' ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
