import type { HookPacket, Match, Meeting } from './packet.ts';
import { all } from './packet.ts';
import {
  asksNamedSet,
  holdsFamily,
  matchOf,
  type NftChainFacts,
  type NftRuleFacts,
  type NftTableFacts,
  objectOf,
} from './nft-expression.ts';

const depthMax = 32;

/** Where iptables translates destinations, as the kernel's headers say (`NF_IP_PRI_NAT_DST`). */
export const dnatPriority = -100;

/**
 * The foreign rules of all base chains of a hook that decide about a packet. An accept ends one base chain only; a drop is final.
 * @param servicesAt the priority at which destinations of Services are translated
 */
export function walkNft(
  tables: readonly NftTableFacts[],
  hook: string,
  packet: HookPacket,
  servicesAt = dnatPriority,
): readonly Meeting[] {
  return tables.flatMap((table) => {
    if (!holdsFamily(table, packet.family)) return [];
    return table.chains
      .filter((chain) => chain.hook === hook)
      .flatMap((chain) => walkBase(table, chain, packet, servicesAt));
  });
}

interface Walk {
  readonly table: NftTableFacts;
  readonly base: NftChainFacts;
  readonly packet: HookPacket;
  readonly servicesAt: number;
  readonly met: Meeting[];
}

interface Left {
  readonly isEnded: boolean;
  readonly isSure: boolean;
}

function walkBase(
  table: NftTableFacts,
  base: NftChainFacts,
  packet: HookPacket,
  servicesAt: number,
): readonly Meeting[] {
  const at: Walk = { table, base, packet, servicesAt, met: [] };
  const left = walk(at, base, true, 0);
  if (!left.isEnded && base.policy === 'drop') {
    const name = `${table.family} ${table.name} ${base.name}`;
    at.met.push({
      kind: 'drop',
      isCertain: left.isSure,
      rule: `nft chain ${name}: hook ${base.hook}, policy drop`,
      fix: `nft chain ${name} '{ policy accept ; }'`,
    });
  }
  return at.met;
}

function walk(at: Walk, chain: NftChainFacts, sure: boolean, depth: number): Left {
  let isSure = sure;
  if (depth > depthMax) return { isEnded: false, isSure: false };
  for (const rule of chain.rules) {
    const verdict = verdictOf(rule);
    const match = matchOfRule(rule, at.packet);
    if (match === 'no' || verdict === undefined) continue;
    const certain = isSure && match === 'yes';
    if (verdict.kind === 'return') {
      if (match === 'yes') return { isEnded: false, isSure };
      isSure = false;
    } else if (verdict.kind === 'jump' || verdict.kind === 'goto') {
      const called = at.table.chains.find(({ name }) => name === verdict.chain);
      const inside = called ? walk(at, called, certain, depth + 1) : { isEnded: false, isSure: false };
      if (inside.isEnded && match === 'yes') return inside;
      if (inside.isEnded || (!inside.isSure && certain)) isSure = false;
      if (verdict.kind === 'goto' && match === 'yes') return { isEnded: false, isSure };
    } else if (verdict.kind === 'unknown') isSure = false;
    else {
      if (verdict.kind !== 'accept') meet(at, chain, rule, verdict.kind, certain);
      if (match === 'yes' && verdict.kind !== 'notrack') return { isEnded: true, isSure };
      isSure &&= verdict.kind === 'notrack';
    }
  }
  return { isEnded: false, isSure };
}

type Verdict =
  | { readonly kind: 'accept' | 'drop' | 'translate' | 'notrack' | 'return' | 'unknown' }
  | { readonly kind: 'jump' | 'goto'; readonly chain: string };

/** The statement that decides; undefined for rules that only count, log or mark. */
function verdictOf({ statements }: NftRuleFacts): Verdict | undefined {
  for (const statement of statements.map(objectOf)) {
    const [name = ''] = Object.keys(statement);
    if (name === 'accept' || name === 'return') return { kind: name };
    if (name === 'drop' || name === 'reject') return { kind: 'drop' };
    if (name === 'dnat' || name === 'redirect') return { kind: 'translate' };
    if (name === 'notrack') return { kind: 'notrack' };
    if (name === 'jump' || name === 'goto') return { kind: name, chain: String(objectOf(statement[name])['target']) };
    if (['vmap', 'queue', 'fwd', 'dup', 'xt', 'tproxy', 'synproxy'].includes(name)) return { kind: 'unknown' };
  }
  return undefined;
}

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

/** A translation harms only where it comes before that of Services. */
function meet(
  at: Walk,
  chain: NftChainFacts,
  { handle }: NftRuleFacts,
  kind: Meeting['kind'],
  isCertain: boolean,
): void {
  const { table, base, servicesAt } = at;
  if (kind === 'translate' && (base.priority ?? 0) > servicesAt) return;
  const name = `${table.family} ${table.name} ${chain.name}`;
  at.met.push({
    kind,
    // Which of two chains with one priority comes first depends on who made them first.
    isCertain: isCertain && (kind !== 'translate' || (base.priority ?? 0) < servicesAt),
    rule: `nft rule ${name} handle ${handle} (hook ${base.hook}, priority ${base.priority ?? 0})`,
    fix: `nft delete rule ${name} handle ${handle}`,
  });
}
