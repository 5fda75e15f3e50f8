import { type Family, isTreeChain, type Problem, refusal } from '@sluice/netfilter';
import type { ObservedIpvs, NodeIpvs } from '../../ports/ipvs/values.ts';
import { countNames, foreignSluiceChains, ownState, foreignProxyChains, withoutCounters } from '../plan/ownership.ts';
import { nodePlaneOf } from '../planes/planes.ts';
import type { Generation } from '../../ports/journal.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import {
  type OwnedNames,
  chainNames,
  familiesOf,
  familyNames,
  joinNames,
  type NodeState,
  type Observed,
  isTree,
} from '../../ports/node-state.ts';
import { kubeProxyState } from '../../ports/ipvs/kube-proxy-state.ts';
import type { Kernel } from '../../ports/kernel.ts';

/** The state of the kernel at the beginning of a transaction. */
export interface StartState {
  /** The active generation, which a rollback returns to. */
  readonly from: Generation;
  /** Our rules in the kernel: equal to `from`, as far as this kernel can have it. With a take-over also those that are taken over. */
  readonly now: NodeState;
  /** The names of what is taken over besides `from`; left out: nothing is. */
  readonly taken?: OwnedNames;
  /** The whole tables, with foreign rules; left out if `now` was verified before and nothing was read since. */
  readonly observed?: Observed;
  /** On a node without a generation: a kube-proxy runs, or is to stay beneath. Its rules may be in the other store, not in `observed`. */
  readonly hasProxy?: true;
  /** The last observed state of mode ipvs; left out: it is read. */
  readonly ipvs?: ObservedIpvs;
}

/** What admission read of the kernel, so that it is not read twice for one bundle. */
export interface AdmissionReads {
  readonly tables?: Observed;
  readonly ipvs?: ObservedIpvs;
}

interface StartStateOptions {
  /** Makes kube-proxy's chains ours when no kube-proxy runs. */
  readonly takeOver: boolean;
  /** Leaves kube-proxy's rules where they are, after ours, in mode nftables too. */
  readonly beneath?: boolean | undefined;
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
  { takeOver, beneath = false, reads }: StartStateOptions,
  { kernel, journal, report }: Ports,
): Promise<StartState | Refusal> {
  const { active } = journal;
  const families = familiesWithTools(facts);
  const observed = reads.tables ?? (await kernel.observe(families, active?.state));
  const ipvs = reads.ipvs ? { ipvs: reads.ipvs } : {};
  const owned = active ? chainNames(active.state) : {};
  // In layout tree every name is our own: kube-proxy's rules may stay, after ours, for a manual rollback.
  const foreign =
    (isTree(desired) || beneath) && !takeOver
      ? foreignSluiceChains(observed, owned)
      : foreignProxyChains(observed, owned);
  const refusedAsForeign = refuseForeign(foreign, takeOver, facts);
  if (refusedAsForeign) return refusedAsForeign;
  // Also where an earlier attempt was rolled back: kube-proxy may run in another mode now.
  const refused = beneath && !hasOwnGeneration(active) ? await refuseBeneath(kernel, desired) : undefined;
  if (refused) return refused;
  const names = joinNames(owned, takeOver ? foreign : {});
  const now: NodeState = { families: ownState(observed, names, desired), sysctls: new Map() };
  if (active) return { from: active, now, observed, ...ipvs, ...(takeOver ? { taken: foreign } : {}) };
  const running = facts.kubeProxies();
  const proxy = beneath ? {} : await findProxy(kernel, takeOver, running, desired.ipvs?.excludeCIDRs ?? []);
  if ('problems' in proxy) return proxy;
  const state: NodeState = { ...withoutCounters(now), ...proxy };
  report('first-run', { chains: countNames(chainNames(now)), families: Object.keys(observed) });
  const hasProxy = beneath || running.length > 0 ? { hasProxy: true as const } : {};
  return { from: { number: 0, revision: 0, version: 'before', state }, now, observed, ...hasProxy, ...ipvs };
}

/** Whether a generation is one of Sluice: generation 0 has the rules from before. */
export const hasOwnGeneration = (active: Generation | undefined): boolean => active !== undefined && active.number > 0;

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
  const names = [...(foreign[family]?.nat ?? []), ...(foreign[family]?.filter ?? [])];
  const ofSluice = names.find(isTreeChain);
  if (ofSluice !== undefined) return unknownSluice(count, ofSluice);
  const [example = ''] = names;
  const processes = running.join(', ');
  return refusal(
    'NODE_CHAINS_NOT_OURS',
    `Cannot apply the bundle: ${count} chains such as ${example} (${family}) belong to another program`,
    running.length > 0
      ? `Stop kube-proxy (process ${processes}) first; sluiced then takes over its chains`
      : 'If kube-proxy made them, stop it and set `takeOver: kube-proxy` in sluiced.yaml',
  );
}

/**
 * Refuses to enter mode nftables where the table exists already: it is not ours to replace. Asked whatever is remembered of the kernel,
 * since another program can have made it meanwhile.
 */
export async function refuseForeignTable(
  desired: NodeState,
  { kernel, journal }: { readonly kernel: Pick<Kernel, 'nft'>; readonly journal: Pick<Ports['journal'], 'active'> },
): Promise<Refusal | undefined> {
  const enters = desired.nft !== undefined && journal.active?.state.nft === undefined;
  return enters && (await kernel.nft?.exists()) === true ? { problems: [foreignTable()] } : undefined;
}

const foreignTable = (): Problem =>
  refusal(
    'NODE_CHAINS_NOT_OURS',
    'Cannot apply the bundle: there is a table inet sluice, and it was not made with this state directory',
    recoverHint,
  );

/** What to do about rules of Sluice on a node without a generation: they serve. */
export const recoverHint =
  'If the state directory was lost, run `sluiced recover`, which takes over these rules unchanged; else set the right directory with `state` in sluiced.yaml';

/** No other program uses the names of layout `tree`. */
const unknownSluice = (count: number, example: string): Problem =>
  refusal(
    'NODE_CHAINS_NOT_OURS',
    `Cannot apply the bundle: ${count} chains such as ${example} were made by Sluice, but not with this state directory`,
    recoverHint,
  );

/**
 * Finds the state of a kube-proxy in mode ipvs or nftables, on a node that has no generation yet.
 *
 * State of mode ipvs can be taken over: the caller makes it part of generation 0. A table of mode nftables cannot: it translates
 * the same packets independently of the iptables rules, so `adopt` removes it once Sluice serves.
 *
 * @param takeOver the setting of the node's config
 * @param running process ids of kube-proxy: its state is not taken over while it runs
 * @param excludeCIDRs of the new profile
 */
export async function findProxy(
  kernel: Pick<Kernel, 'proxyTraces' | 'ipvs'>,
  takeOver: boolean,
  running: readonly number[],
  excludeCIDRs: readonly string[],
): Promise<{ readonly ipvs?: NodeIpvs } | Refusal> {
  const traces = await kernel.proxyTraces();
  if (traces.nftables) return { problems: [nftablesLeft()] };
  if (!traces.ipvs) return {};
  if (!takeOver || running.length > 0) return { problems: [ipvsLeft(takeOver ? running : [])] };
  if (!kernel.ipvs) return { problems: [toolsMissing()] };
  const ipvs = kubeProxyState(await kernel.ipvs.observe(), excludeCIDRs);
  return ipvs ? { ipvs } : {};
}

/** Refuses to go in front of a kube-proxy where the kernel may ask its rules first. */
async function refuseBeneath(
  kernel: Pick<Kernel, 'proxyTraces' | 'ipvs'>,
  desired: NodeState,
): Promise<Refusal | undefined> {
  const traces = await kernel.proxyTraces();
  const [first = 'iptables', ...others] = (['ipvs', 'nftables'] as const).filter((mode) => traces[mode]);
  const problem = nodePlaneOf(desired).refusesBeneath([first, ...others]);
  if (problem) return { problems: [problem] };
  return traces.ipvs && !kernel.ipvs ? { problems: [toolsMissingBeneath()] } : undefined;
}

/** Its table serves until Sluice does, whether it still runs or not. */
const nftablesLeft = (): Problem =>
  refusal(
    'NODE_CHAINS_NOT_OURS',
    'Cannot apply the bundle: a kube-proxy in mode nftables has its table kube-proxy, which translates the same packets',
    'Stop sluiced and run `sluiced adopt` (with --daemonset where kube-proxy has stopped already): Sluice serves before it removes that table. The profile must be in mode nftables; mode iptables can follow later',
  );

const ipvsLeft = (running: readonly number[]): Problem =>
  refusal(
    'NODE_SERVERS_NOT_OURS',
    'Cannot apply the bundle: a kube-proxy in mode ipvs left its interface kube-ipvs0, with addresses and virtual servers',
    running.length > 0
      ? `Stop kube-proxy (process ${running.join(', ')}) first; sluiced then takes over its state`
      : 'Stop kube-proxy and set `takeOver: kube-proxy` in sluiced.yaml, or run `sluiced adopt`, which does both',
  );

/** kube-proxy runs and serves: its state must not be removed by hand. */
const toolsMissingBeneath = (): Problem => ({
  ...toolsMissing(),
  message: 'Cannot move from a kube-proxy in mode ipvs: the node lacks ipvsadm, ipset or ip',
  hint: 'Install ipvsadm, ipset and iproute2: the end of the move removes its addresses and virtual servers with them',
});

const toolsMissing = (): Problem =>
  refusal(
    'NODE_TOOL_MISSING',
    'Cannot take over the state of a kube-proxy in mode ipvs: the node lacks ipvsadm, ipset or ip',
    'Install ipvsadm, ipset and iproute2, with which it is taken over',
  );
