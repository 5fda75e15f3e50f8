import { type Family, isTreeChain, type Problem } from '@sluice/bundle';
import type { IpvsSeen } from '../ipvs/values.ts';
import { countNames, otherSluice, ownState, strangers } from '../rollout/own.ts';
import { lookForProxy } from '../rollout/proxy.ts';
import type { Generation, NodeFacts, Ports, Refusal } from '../rollout/ports.ts';
import {
  type ChainNames,
  chainNames,
  familiesOf,
  familyNames,
  joinNames,
  type NodeState,
  type Observed,
} from '../rollout/state.ts';
import { isTree } from './entries.ts';

/** What the kernel holds when a transaction begins. */
export interface StartState {
  /** The generation that stands: the way back. */
  readonly from: Generation;
  /** The kernel's state, equal to `from` as far as this kernel can have it. */
  readonly now: NodeState;
  /** The tables as a whole, for what foreign rules need; left out when `now` was verified before and nothing was read since. */
  readonly observed?: Observed;
  /** What mode ipvs held when it was seen last; left out: it is asked. */
  readonly ipvs?: IpvsSeen;
}

/** What was read of the kernel for the bundle at hand, before it was known how it is put in. */
export interface Looked {
  readonly tables?: Observed;
  readonly ipvs?: IpvsSeen;
}

/** What a look at the whole kernel may do. */
export interface StartStateOptions {
  /** Makes kube-proxy's chains ours when no kube-proxy runs. */
  readonly takeOver: boolean;
  /** It is not read again. */
  readonly looked: Looked;
}

/** Reads what stands before a change; on the first run it is what becomes generation 0. Or says why this node's rules are not ours to change. */
export async function readStartState(
  desired: NodeState,
  facts: NodeFacts,
  { takeOver, looked }: StartStateOptions,
  { kernel, journal, report }: Ports,
): Promise<StartState | Refusal> {
  const { active } = journal;
  const families = familiesWithTools(facts);
  const observed = looked.tables ?? (await kernel.observe(families, active?.state));
  const seen = looked.ipvs ? { ipvs: looked.ipvs } : {};
  const owned = active ? chainNames(active.state) : {};
  // In layout tree every name is our own: kube-proxy's rules may stay, behind ours, as the way back by hand.
  const others = isTree(desired) && !takeOver ? otherSluice(observed, owned) : strangers(observed, owned);
  const refusal = mayTake(others, takeOver, facts);
  if (refusal) return refusal;
  const names = joinNames(owned, takeOver ? others : {});
  const now: NodeState = { families: ownState(observed, names, desired), sysctls: new Map() };
  if (active) return { from: active, now, observed, ...seen };
  const proxy = await lookForProxy(kernel, takeOver, facts.kubeProxies(), desired.ipvs?.excludeCIDRs ?? []);
  if ('problems' in proxy) return proxy;
  const state: NodeState = { ...now, ...proxy };
  report('first-run', { chains: countNames(chainNames(now)), families: Object.keys(observed) });
  return { from: { number: 0, revision: 0, version: 'before', state }, now, observed, ...seen };
}

/** Those whose tables the node can read. */
export function familiesWithTools({ tools }: Pick<NodeFacts, 'tools'>): readonly Family[] {
  return familyNames.filter((family) => tools[family] !== undefined);
}

/** Whether what was known from before is enough for a desired state: then nothing has to be read. */
export function knowsStartState(desired: NodeState, active: Generation): boolean {
  return familiesOf(desired).every((family) => active.state.families[family]);
}

function mayTake(others: ChainNames, takeOver: boolean, facts: NodeFacts): Refusal | undefined {
  const count = countNames(others);
  if (count === 0) return undefined;
  const running = facts.kubeProxies();
  if (takeOver && running.length === 0) return undefined;
  return { problems: [notOurs(others, count, takeOver ? running : [])] };
}

function notOurs(others: ChainNames, count: number, running: readonly number[]): Problem {
  const family =
    familyNames.find((name) => others[name] && others[name].filter.length + others[name].nat.length > 0) ?? 'ipv4';
  const example = others[family]?.nat[0] ?? others[family]?.filter[0] ?? '';
  const processes = running.join(', ');
  if (isTreeChain(example)) return unknownSluice(count, example);
  return {
    code: 'NODE_CHAINS_NOT_OURS',
    level: 'error',
    message: `Cannot apply the bundle: ${count} chains such as ${example} (${family}) were made by somebody else`,
    hint:
      running.length > 0
        ? `kube-proxy still runs (process ${processes}): stop it first, sluiced takes its chains over then`
        : 'If kube-proxy made them, stop it and set `takeOver: kube-proxy` in sluiced.yaml',
  };
}

/** Names of layout `tree` are nobody else's. */
function unknownSluice(count: number, example: string): Problem {
  return {
    code: 'NODE_CHAINS_NOT_OURS',
    level: 'error',
    message: `Cannot apply the bundle: ${count} chains such as ${example} were made by a Sluice that this state directory knows nothing of`,
    hint: 'If the state directory was lost, run `sluiced recover`, which takes the rules over as they stand; else name the right one with `state` in sluiced.yaml',
  };
}
