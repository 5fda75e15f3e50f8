import { type Family, isTreeChain, type Problem } from '@sluice/netfilter';
import type { ObservedIpvs } from '../ipvs/values.ts';
import { countNames, foreignSluiceChains, ownState, foreignProxyChains } from '../plan/ownership.ts';
import { findProxy } from './proxy.ts';
import type { Generation } from '../ports/journal.ts';
import type { NodeFacts } from '../ports/node-facts.ts';
import type { Ports } from '../ports/ports.ts';
import type { Refusal } from '../ports/refusal.ts';
import {
  type OwnedNames,
  chainNames,
  familiesOf,
  familyNames,
  joinNames,
  type NodeState,
  type Observed,
} from '../ports/node-state.ts';
import { isTree } from '../plan/entries.ts';

/** The state of the kernel at the beginning of a transaction. */
export interface StartState {
  /** The active generation, which a rollback returns to. */
  readonly from: Generation;
  /** Our rules in the kernel: equal to `from`, as far as this kernel can have it. */
  readonly now: NodeState;
  /** The whole tables, with foreign rules; left out if `now` was verified before and nothing was read since. */
  readonly observed?: Observed;
  /** The last observed state of mode ipvs; left out: it is read. */
  readonly ipvs?: ObservedIpvs;
}

/** What admission read of the kernel, so that it is not read twice for one bundle. */
export interface AdmissionReads {
  readonly tables?: Observed;
  readonly ipvs?: ObservedIpvs;
}

export interface StartStateOptions {
  /** Makes kube-proxy's chains ours when no kube-proxy runs. */
  readonly takeOver: boolean;
  readonly reads: AdmissionReads;
}

/**
 * Reads the state before a change; on the first run it becomes generation 0.
 * @param reads what admission has read already
 * @returns the state, or why this node's rules are not ours to change
 */
export async function readStartState(
  desired: NodeState,
  facts: NodeFacts,
  { takeOver, reads }: StartStateOptions,
  { kernel, journal, report }: Ports,
): Promise<StartState | Refusal> {
  const { active } = journal;
  const families = familiesWithTools(facts);
  const observed = reads.tables ?? (await kernel.observe(families, active?.state));
  const ipvs = reads.ipvs ? { ipvs: reads.ipvs } : {};
  const owned = active ? chainNames(active.state) : {};
  // In layout tree every name is our own: kube-proxy's rules may stay, after ours, for a manual rollback.
  const foreign =
    isTree(desired) && !takeOver ? foreignSluiceChains(observed, owned) : foreignProxyChains(observed, owned);
  const refusal = refuseForeign(foreign, takeOver, facts);
  if (refusal) return refusal;
  const names = joinNames(owned, takeOver ? foreign : {});
  const now: NodeState = { families: ownState(observed, names, desired), sysctls: new Map() };
  if (active) return { from: active, now, observed, ...ipvs };
  const proxy = await findProxy(kernel, takeOver, facts.kubeProxies(), desired.ipvs?.excludeCIDRs ?? []);
  if ('problems' in proxy) return proxy;
  const state: NodeState = { ...now, ...proxy };
  report('first-run', { chains: countNames(chainNames(now)), families: Object.keys(observed) });
  return { from: { number: 0, revision: 0, version: 'before', state }, now, observed, ...ipvs };
}

/** The families whose tables the node can read. */
export function familiesWithTools({ tools }: Pick<NodeFacts, 'tools'>): readonly Family[] {
  return familyNames.filter((family) => tools[family] !== undefined);
}

/** Whether the remembered state covers all families of a desired state, so that nothing must be read. */
export function knowsStartState(desired: NodeState, active: Generation): boolean {
  return familiesOf(desired).every((family) => active.state.families[family]);
}

function refuseForeign(foreign: OwnedNames, takeOver: boolean, facts: NodeFacts): Refusal | undefined {
  const count = countNames(foreign);
  if (count === 0) return undefined;
  const running = facts.kubeProxies();
  if (takeOver && running.length === 0) return undefined;
  return { problems: [notOurs(foreign, count, takeOver ? running : [])] };
}

function notOurs(foreign: OwnedNames, count: number, running: readonly number[]): Problem {
  const family =
    familyNames.find((name) => foreign[name] && foreign[name].filter.length + foreign[name].nat.length > 0) ?? 'ipv4';
  const example = foreign[family]?.nat[0] ?? foreign[family]?.filter[0] ?? '';
  const processes = running.join(', ');
  if (isTreeChain(example)) return unknownSluice(count, example);
  return {
    code: 'NODE_CHAINS_NOT_OURS',
    level: 'error',
    message: `Cannot apply the bundle: ${count} chains such as ${example} (${family}) belong to another program`,
    hint:
      running.length > 0
        ? `Stop kube-proxy (process ${processes}) first; sluiced then takes over its chains`
        : 'If kube-proxy made them, stop it and set `takeOver: kube-proxy` in sluiced.yaml',
  };
}

/** No other program uses the names of layout `tree`. */
function unknownSluice(count: number, example: string): Problem {
  return {
    code: 'NODE_CHAINS_NOT_OURS',
    level: 'error',
    message: `Cannot apply the bundle: ${count} chains such as ${example} were made by Sluice, but not with this state directory`,
    hint: 'If the state directory was lost, run `sluiced recover`, which takes over these rules unchanged; else set the right directory with `state` in sluiced.yaml',
  };
}
