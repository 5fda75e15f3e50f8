import { appendTo } from '../maps.ts';
import { addAll } from '../add-all.ts';
import { differing } from '../layered.ts';
import type { Family } from '../family.ts';
import type { TableProgram } from '../link/program.ts';
import type { Rule } from '../rules/rule.ts';
import { isLocal, isOfFrontend, isOutside, ofKind, withoutTag } from './chain-names.ts';
import { calleeOf, frontendOf, matchesOnly, printFrontend, readLinked, refuses } from './of-rule.ts';
import { type PlainRule, readPlain, type RemovedAndAdded } from './plain-rules.ts';
import type { FrontendChange } from './services.ts';

/** Both tables, before and after. */
type Tables = readonly [TableProgram, TableProgram];

/**
 * What happens at frontends, by rules of nat and filter that differ: nat leads the packets of a frontend to a Service with endpoints,
 * filter rejects them for one without.
 * @returns undefined if other rules differ, too
 */
export function frontendChanges(
  family: Family,
  [from, to]: Tables,
  nat: RemovedAndAdded<PlainRule>,
  filter: RemovedAndAdded<PlainRule>,
): readonly FrontendChange[] | undefined {
  const served = { before: servedBy(nat.removed, from, to), after: servedBy(nat.added, to, from) };
  const refused = { before: refusedBy(filter.removed), after: refusedBy(filter.added) };
  if (!served.before || !served.after || !refused.before || !refused.after) return undefined;
  const all = new Set([...served.before, ...served.after, ...refused.before, ...refused.after]);
  const [had, has, refusedIt, refusesIt] = [served.before, served.after, refused.before, refused.after].map(
    (some) => new Set(some),
  ) as [Set<string>, Set<string>, Set<string>, Set<string>];
  return [...all].map((one) => ({
    frontend: `${family} ${one}`,
    served: { before: had.has(one), after: has.has(one) },
    refused: { before: refusedIt.has(one), after: refusesIt.has(one) },
  }));
}

/** The frontends whose packets rules of filter reject or drop. */
function refusedBy(rules: readonly PlainRule[]): readonly string[] | undefined {
  const found = rules.map((one) => {
    const rule = readPlain(one);
    return rule && refuses(rule) ? textOf(rule) : undefined;
  });
  return found.every((one) => one !== undefined) ? found : undefined;
}

function textOf(rule: Rule): string | undefined {
  const frontend = frontendOf(rule);
  return frontend && printFrontend(frontend);
}

/**
 * The frontends that rules of nat serve. Rules in the chains of a Service that the other table lacks belong to its frontends. With
 * policy Local a Service with endpoints on other nodes keeps its external frontends; with the last endpoint of this node they lose one
 * rule, and filter drops their packets (`hasLocalEndpoints` in kube-proxy's `pkg/proxy/iptables/proxier.go`).
 * @param rules those of `table` that the other one lacks
 * @returns undefined if a rule is none of these
 */
function servedBy(
  rules: readonly PlainRule[],
  table: TableProgram,
  other: TableProgram,
): readonly string[] | undefined {
  const changed = differing(table.chains, other.chains).filter(isOfFrontend);
  const plain = (is: (name: string) => boolean): ReadonlySet<string> => new Set(changed.filter(is).map(withoutTag));
  const [gone, came] = [plain((name) => !other.chains.has(name)), plain((name) => other.chains.has(name))];
  /** Whether the other table has a chain of `table`, under this name or with another tag. */
  const isKept = (name: string): boolean => !gone.has(name) || came.has(name);
  const found: string[] = [];
  let byChain: ReadonlyMap<string, readonly string[]> | undefined;
  for (const one of rules) {
    const { chain, isLast } = one;
    if (isOfFrontend(chain) && !isKept(chain)) continue;
    const rule = readPlain(one);
    const target = rule?.target?.kind === 'jump' ? rule.target.chain : '';
    if (!rule || !isOfFrontend(target) || isKept(target)) return undefined;
    if (!isOfFrontend(chain)) {
      const frontend = textOf(rule);
      if (frontend === undefined) return undefined;
      found.push(frontend);
      continue;
    }
    // Before other rules it would take their packets.
    if (!isLast || !leadsHere(rule, target) || chain !== ofKind(target, 'EXT')) return undefined;
    byChain ??= externalFrontends(table);
    for (const name of [chain, ofKind(chain, 'FW')]) addAll(found, byChain.get(name) ?? []);
  }
  return found;
}

/** Whether it is the rule of policy Local that leads external traffic to the endpoints of this node, while there are any. */
const leadsHere = (rule: Rule, target: string): boolean =>
  isLocal(target) && rule.protocol === undefined && rule.matches.length === 0 && matchesOnly(rule);

/** The external frontends by the chain that they lead to. The rules of that chain are the same in both tables. */
function externalFrontends(table: TableProgram): ReadonlyMap<string, readonly string[]> {
  const byChain = new Map<string, string[]>();
  for (const [name, rules] of table.chains) {
    if (isOfFrontend(name)) continue;
    for (const text of rules) {
      const target = calleeOf(text) ?? '';
      const rule = isOutside(target) ? readLinked(text) : undefined;
      const frontend = rule?.target?.kind === 'jump' ? textOf(rule) : undefined;
      if (frontend === undefined) continue;
      appendTo(byChain, withoutTag(target), frontend);
    }
  }
  return byChain;
}
