import { objectOf, printStatements } from '@sluice/netfilter';
import { all, type HookPacket, type Match, type Meeting } from './packet.ts';
import {
  asksNamedSet,
  elementCount,
  holdsFamily,
  matchOf,
  type NftChainFacts,
  type NftRuleFacts,
  type NftTableFacts,
} from './nft-expression.ts';
import { type Decision, type Effort, type JudgedRule, type Verdict, walkChain } from './walk.ts';

/** Where iptables translates destinations, as the kernel's headers say (`NF_IP_PRI_NAT_DST`). */
export const dnatPriority = -100;

/**
 * The foreign rules of all base chains of a hook that decide about a packet. An accept ends one base chain only; a drop is final.
 * @param effort is used up
 * @param servicesAt the priority at which destinations of Services are translated
 */
export function walkNft(
  tables: readonly NftTableFacts[],
  hook: string,
  packet: HookPacket,
  effort: Effort,
  servicesAt = dnatPriority,
): readonly Meeting[] {
  return tables.flatMap((table) => {
    if (!holdsFamily(table, packet.family)) return [];
    return table.chains
      .filter((chain) => chain.hook === hook)
      .flatMap((chain) => walkBase(table, chain, packet, effort, servicesAt));
  });
}

interface ListedRule extends JudgedRule<ListedRule> {
  readonly chain: string;
  readonly listed: NftRuleFacts;
}

function walkBase(
  table: NftTableFacts,
  base: NftChainFacts,
  packet: HookPacket,
  effort: Effort,
  servicesAt: number,
): readonly Meeting[] {
  const { priority = 0 } = base;
  const met: Meeting[] = [];
  const meet = ({ chain, listed: { handle, statements } }: ListedRule, kind: Decision, isCertain: boolean): void => {
    // A translation harms only where it comes before that of Services.
    if (kind === 'accept' || (kind === 'translate' && priority > servicesAt)) return;
    const name = `${table.family} ${table.name} ${chain}`;
    met.push({
      kind,
      // Which of two chains with one priority comes first depends on who made them first.
      isCertain: isCertain && (kind !== 'translate' || priority < servicesAt),
      rule: `nft rule ${name} handle ${handle} (${short(printStatements(statements))})`,
      fix: `nft delete rule ${name} handle ${handle}`,
      ...countedBy(statements),
    });
  };
  const left = walkChain(rulesOf(table, base, packet), meet, effort);
  if (!left.isEnded && base.policy === 'drop') {
    const name = `${table.family} ${table.name} ${base.name}`;
    met.push({
      kind: 'drop',
      isCertain: left.isSure,
      rule: `nft chain ${name}: hook ${base.hook}, policy drop`,
      fix: `nft chain ${name} '{ policy accept ; }'`,
    });
  }
  return met;
}

function* rulesOf(
  table: NftTableFacts,
  { name, rules, isCut }: NftChainFacts,
  packet: HookPacket,
): Generator<ListedRule> {
  for (const rule of rules)
    yield {
      chain: name,
      listed: rule,
      match: matchOfRule(rule, packet),
      verdict: verdictOf(rule, table, packet),
      cost: costOf(rule),
    };
  if (isCut) yield { chain: name, listed: unlisted, match: 'perhaps', verdict: { kind: 'unknown' } };
}

const unlisted: NftRuleFacts = { handle: 0, statements: [] };

/** A set is searched element by element where these are networks. */
const costOf = ({ statements }: NftRuleFacts): number =>
  statements.reduce<number>((sum, statement) => sum + elementCount(objectOf(objectOf(statement)['match'])['right']), 1);

/** A table may have thousands of chains, and each of their rules may call one. */
function chainsOf(table: NftTableFacts): ReadonlyMap<unknown, NftChainFacts> {
  const known = byName.get(table) ?? new Map(table.chains.map((chain) => [chain.name, chain]));
  byName.set(table, known);
  return known;
}

const byName = new WeakMap<NftTableFacts, ReadonlyMap<unknown, NftChainFacts>>();

/** Of the statement that decides; others only count, log or mark. */
function verdictOf({ statements }: NftRuleFacts, table: NftTableFacts, packet: HookPacket): Verdict<ListedRule> {
  for (const statement of statements.map(objectOf)) {
    const [name = ''] = Object.keys(statement);
    if (name === 'jump' || name === 'goto') {
      const target = objectOf(statement[name])['target'];
      const chain = chainsOf(table).get(target);
      return chain ? { kind: name, called: rulesOf(table, chain, packet) } : { kind: 'unknown' };
    }
    const kind = Object.hasOwn(kinds, name) ? kinds[name] : undefined;
    if (kind) return { kind };
  }
  return { kind: 'none' };
}

const kinds: Readonly<Record<string, 'accept' | 'drop' | 'translate' | 'notrack' | 'return' | 'unknown'>> = {
  accept: 'accept',
  return: 'return',
  drop: 'drop',
  reject: 'drop',
  dnat: 'translate',
  redirect: 'translate',
  notrack: 'notrack',
  vmap: 'unknown',
  queue: 'unknown',
  fwd: 'unknown',
  dup: 'unknown',
  xt: 'unknown',
  tproxy: 'unknown',
  synproxy: 'unknown',
};

function matchOfRule({ statements }: NftRuleFacts, packet: HookPacket): Match {
  return all(
    statements.map(objectOf).map((statement): Match => {
      if ('match' in statement) {
        const match = objectOf(statement['match']);
        return asksNamedSet(match) ? 'perhaps' : matchOf(match, packet);
      }
      return 'limit' in statement || 'xt' in statement || 'quota' in statement || 'ct count' in statement
        ? 'perhaps'
        : 'yes';
    }),
  );
}

/** A set in a rule may have thousands of elements. */
const short = (text: string): string => (text.length > 120 ? `${text.slice(0, 120)} …` : text);

/** Before a verdict, `counter` counts packets that the conditions admit. */
function countedBy(statements: NftRuleFacts['statements']): Pick<Meeting, 'counted'> {
  const counted = statements
    .map((statement) => objectOf(objectOf(statement)['counter'])['packets'])
    .find(Number.isInteger);
  return counted === undefined ? {} : { counted: Number(counted) };
}
