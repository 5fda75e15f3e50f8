import {
  type Family,
  type NftState,
  readFrontend,
  type TableName,
  type TableProgram,
  targetOf,
} from '@sluice/netfilter';
import { familiesOf, mapTables, type NodeState, tableOf } from '../../ports/node-state.ts';
import { formOf, frontendForm } from './forms.ts';

/**
 * The part of a state that shows whether a kernel takes it.
 *
 * Of rules, one of each form, with the rules on one path to it from a built-in chain, because the kernel also checks from which hooks a rule
 * is reached: 71,000 rules of 10,000 Services become some fifty. Of mode nftables the table, with one frontend of each form. Sets and
 * virtual servers stay whole.
 */
export function rehearsalSample(state: NodeState): NodeState {
  const { nft } = state;
  const families = mapTables(familiesOf(state), (family, table) =>
    tableSample(family, table, tableOf(state, family, table)),
  );
  return { ...state, families, ...(nft ? { nft: nftSample(nft) } : {}) };
}

function nftSample({ settings, frontends }: NftState): NftState {
  const forms = new Set<string>();
  const taken = [...frontends].filter(([key, lines]) => {
    const frontend = readFrontend(key, lines);
    const form = frontendForm(frontend);
    const isNew = !forms.has(form);
    forms.add(form);
    // Source ranges are intervals, which the kernel compares with each other.
    return isNew || frontend.ranges.length > 0;
  });
  return { settings, frontends: new Map(taken) };
}

/** A rule by its chain and position. */
interface RulePlace {
  readonly chain: string;
  readonly at: number;
}

function tableSample(family: Family, table: TableName, { chains, jumps }: TableProgram): TableProgram {
  const callers = callersOf(chains, jumps);
  const kept = new Map<string, Set<number>>();
  const keepChain = (chain: string): Set<number> => {
    const known = kept.get(chain);
    if (known) return known;
    const rules = new Set<number>();
    kept.set(chain, rules);
    const caller = callers.get(chain);
    if (caller) keepChain(caller.chain).add(caller.at);
    return rules;
  };
  for (const jump of jumps) keepChain(targetOf(jump) ?? '');
  const forms = new Set<string>();
  // Chains that packets reach first: only there the kernel checks from which hooks a rule of the form is reached.
  for (const chain of new Set([...kept.keys(), ...callers.keys(), ...chains.keys()]))
    for (const [at, rule] of (chains.get(chain) ?? []).entries()) {
      const form = formOf(family, table, rule);
      if (forms.has(form)) continue;
      forms.add(form);
      keepChain(chain).add(at);
      keepChain(targetOf(rule) ?? '');
    }
  const sample = [...chains].flatMap(([chain, rules]) => {
    const places = kept.get(chain);
    return places ? [[chain, rules.filter((_rule, at) => places.has(at))] as const] : [];
  });
  return { chains: new Map(sample), jumps };
}

/** Of each chain that built-in chains reach, the first rule that leads to it; none for those that they jump to themselves. */
function callersOf(chains: TableProgram['chains'], jumps: TableProgram['jumps']): ReadonlyMap<string, RulePlace> {
  const callers = new Map<string, RulePlace>();
  const entries = jumps.map((jump) => targetOf(jump) ?? '');
  const reached = new Set(entries);
  for (const chain of reached)
    for (const [at, rule] of (chains.get(chain) ?? []).entries()) {
      const target = targetOf(rule);
      if (target === undefined || reached.has(target) || !chains.has(target)) continue;
      reached.add(target);
      callers.set(target, { chain, at });
    }
  return callers;
}
