import { type Finding, isOwnChain } from '@sluice/netfilter';
import type { DesiredFacts, LiveFacts } from '../facts.ts';

/** `trace id 5f3a2b1c inet fw out rule tcp dport 80 drop (verdict drop)`; the same with `policy drop` at the end of a base chain. */
const nftLine = /^trace id \S+ (\S+) (\S+) (\S+) (?:rule (.*) \(verdict drop\)|(policy) drop)\s*$/;
/** `TRACE: filter:OUTPUT:rule:1 IN= OUT=lo …` */
const legacyLine = /^TRACE: ([a-z]+):(\S+):(rule|return|policy):(\d+) /;

/**
 * What dropped the doctor's own packet, by its trace: also rules with marks, sets and limits, which nothing else here judges. Sluice's own
 * rules drop what has no endpoint, which other checks explain.
 */
export function traceChecks(
  about: string,
  live: LiveFacts | undefined,
  desired: Pick<DesiredFacts, 'mode' | 'store'>,
): readonly Finding[] {
  const found = live ? (dropOfNft(live.trace) ?? dropOfLegacy(live, desired)) : undefined;
  if (!found) return [];
  const evidence = [`${found.rule} dropped a packet of this node to ${live?.traced ?? about}`];
  return [{ code: 'FOREIGN_DROP', certainty: 'certain', about: found.rule, evidence, fix: found.fix }];
}

interface Dropped {
  readonly rule: string;
  readonly fix: string;
}

function dropOfNft(trace: readonly string[]): Dropped | undefined {
  for (const line of trace) {
    const [, family = '', table = '', chain = '', rule, policy] = nftLine.exec(line) ?? [];
    if (family === '' || (family === 'inet' && table === 'sluice') || isOwn(chain)) continue;
    const what = policy === undefined ? `rule ${rule ?? ''}` : 'policy drop';
    return {
      rule: `nft ${family} ${table} ${chain} ${what}`,
      fix:
        policy === undefined
          ? `nft -a list chain ${family} ${table} ${chain}`
          : `nft list chain ${family} ${table} ${chain}`,
    };
  }
  return undefined;
}

/**
 * The log says which rules a packet met, not what they did: one that met none in POSTROUTING ended in the last one, if store legacy has a
 * table there at all. That is `nat` where Sluice's rules are in this store, and else `mangle`, where the packet met it in OUTPUT: one of
 * `filter` alone, as `iptables-legacy -L` loads it, shows nothing.
 */
function dropOfLegacy(
  { trace, answers, traced }: LiveFacts,
  { mode, store }: Pick<DesiredFacts, 'mode' | 'store'>,
): Dropped | undefined {
  const lines = trace.flatMap((line) => {
    const [, table = '', chain = '', kind = '', number = ''] = legacyLine.exec(line) ?? [];
    return table === '' ? [] : [{ table, chain, kind, number }];
  });
  const last = lines.at(-1);
  if (!last || answers.get(traced ?? '') === 'answered') return undefined;
  const isOwnStore = store === 'legacy' && mode !== 'nftables';
  if (!isOwnStore && !lines.some(({ table }) => table === 'mangle')) return undefined;
  if (lines.some(({ chain }) => chain === 'POSTROUTING') || isOwn(last.chain)) return undefined;
  const where = `${last.table} ${last.chain}`;
  return {
    rule: `iptables-legacy -t ${where} ${last.kind} ${last.number}`,
    fix: `iptables-legacy -t ${last.table} -S ${last.chain}`,
  };
}

const isOwn = (chain: string): boolean => isOwnChain(chain) || /^(?:SLUICE|KUBE)-/.test(chain);
