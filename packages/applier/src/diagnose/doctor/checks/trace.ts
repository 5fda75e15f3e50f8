import { type Finding, isOwnChain, ownerOf, type RuleOwner, targetOf } from '@sluice/netfilter';
import type { DesiredFacts, Facts, LiveFacts, SavedTable } from '../facts.ts';
import { removal, tool } from '../meetings.ts';
import { ownedBy } from './foreign-rules.ts';

/** `trace id 5f3a2b1c inet fw out rule tcp dport 80 drop (verdict drop)`; the same with `policy drop` at the end of a base chain. */
const nftLine = /^trace id \S+ (\S+) (\S+) (\S+) (?:rule (.*) \(verdict drop\)|(policy) drop)\s*$/;
/** `TRACE: filter:OUTPUT:rule:1 IN= OUT=lo …` */
const legacyLine = /^TRACE: ([a-z]+):(\S+):(rule|return|policy):(\d+) /;

/**
 * What dropped the doctor's own packet, by its trace: also rules with marks, sets and limits, which nothing else here judges. Sluice's own
 * rules drop what has no endpoint, which other checks explain.
 */
export function* traceChecks(
  about: string,
  live: LiveFacts | undefined,
  desired: Pick<DesiredFacts, 'mode' | 'store'>,
  tables: Facts['tables'] = [],
): Iterable<Finding> {
  if (!live) return;
  const found = dropOfNft(live.trace) ?? dropOfKnownLegacy(live, tables) ?? dropOfLegacy(live, desired);
  if (!found) return;
  const { rule, fix, owner } = found;
  const evidence = [`${rule} dropped a packet of this node to ${live.traced ?? about}`, ...ownedBy(owner)];
  yield { code: 'FOREIGN_DROP', certainty: 'certain', about: rule, evidence, fix: owner?.inspect ?? fix };
}

interface Dropped {
  readonly rule: string;
  readonly fix: string;
  readonly owner?: RuleOwner | undefined;
}

function dropOfNft(trace: readonly string[]): Dropped | undefined {
  for (const line of trace) {
    const [, family = '', table = '', chain = '', rule = '', policy] = nftLine.exec(line) ?? [];
    if (family === '' || (family === 'inet' && table === 'sluice') || isOwn(chain)) continue;
    const isRule = policy === undefined;
    return {
      rule: `nft ${family} ${table} ${chain} ${isRule ? `rule ${rule}` : 'policy drop'}`,
      owner: ownerOf({ table: 'nftables', chain: `${table} ${chain}`, rule }),
      fix: `nft ${isRule ? '-a ' : ''}list chain ${family} ${table} ${chain}`,
    };
  }
  return undefined;
}

/** A line of the log, `TRACE: filter:OUTPUT:rule:1 …`. */
interface LegacyPlace {
  readonly table: string;
  readonly chain: string;
  readonly kind: string;
  /** Of the rule in its chain, from 1; the policy is the last one. */
  readonly number: string;
}

const legacyPlaces = (trace: readonly string[]): readonly LegacyPlace[] =>
  trace.flatMap((line) => {
    const [, table = '', chain = '', kind = '', number = ''] = legacyLine.exec(line) ?? [];
    return table === '' ? [] : [{ table, chain, kind, number }];
  });

const familyOf = ({ traced = '' }: LiveFacts): SavedTable['family'] => (traced.startsWith('[') ? 'ipv6' : 'ipv4');

/** The log says which rules a packet met; what they do is known where they were read. */
function dropOfKnownLegacy(live: LiveFacts, tables: readonly SavedTable[]): Dropped | undefined {
  const family = familyOf(live);
  for (const { table: name, chain: met, kind, number } of legacyPlaces(live.trace)) {
    const table = tables.find((one) => one.store === 'legacy' && one.family === family && one.table === name);
    const chain = table?.chains.get(met);
    if (!table || !chain || isOwn(met)) continue;
    if (kind === 'policy' && chain.policy === 'DROP')
      return { rule: `${tool(table)} -P ${met} DROP`, fix: `${tool(table)} -P ${met} ACCEPT` };
    const text = kind === 'rule' ? chain.rules[Number(number) - 1] : undefined;
    const target = text === undefined ? undefined : targetOf(text);
    if (text !== undefined && (target === 'DROP' || target === 'REJECT'))
      return {
        rule: `${tool(table)} ${text}`,
        fix: removal(table, text),
        owner: ownerOf({ table: 'filter', chain: met, rule: text }),
      };
  }
  return undefined;
}

/**
 * The log says which rules a packet met, not what they did: one that met none in POSTROUTING ended in the last one, if store legacy has a
 * table there at all. That is `nat` where Sluice's rules are in this store, and else `mangle`, where the packet met it in OUTPUT: one of
 * `filter` alone, as `iptables-legacy -L` loads it, shows nothing.
 */
function dropOfLegacy(live: LiveFacts, { mode, store }: Pick<DesiredFacts, 'mode' | 'store'>): Dropped | undefined {
  const { trace, answers, traced } = live;
  const lines = legacyPlaces(trace);
  const last = lines.at(-1);
  if (!last || answers.get(traced ?? '') === 'answered') return undefined;
  const isOwnStore = store === 'legacy' && mode !== 'nftables';
  if (!isOwnStore && !lines.some(({ table }) => table === 'mangle')) return undefined;
  if (lines.some(({ chain }) => chain === 'POSTROUTING') || isOwn(last.chain)) return undefined;
  const command = `${familyOf(live) === 'ipv4' ? 'iptables' : 'ip6tables'}-legacy -t ${last.table}`;
  return {
    rule: `${command} ${last.chain} ${last.kind} ${last.number}`,
    fix: `${command} -S ${last.chain}`,
  };
}

const isOwn = (chain: string): boolean => isOwnChain(chain) || /^(?:SLUICE|KUBE)-/.test(chain);
