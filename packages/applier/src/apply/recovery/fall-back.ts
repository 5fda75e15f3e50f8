import type { Family } from '@sluice/netfilter';
import { findProxy } from '../admission/start-state.ts';
import { messageOf } from '../../message.ts';
import { countNames, foreignProxyChains, ownState } from '../plan/ownership.ts';
import { leakedChains } from '../plan/side-by-side.ts';
import type { Generation } from '../../ports/journal.ts';
import { chainNames, isTree, joinNames, type NodeState, type Observed } from '../../ports/node-state.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { restore } from '../transaction/restore.ts';
import { isBare } from './recover.ts';

/** What a fall-back asks of the node. */
interface FallBackNode {
  /** The families that it has tools for. */
  readonly families: readonly Family[];
  /** Whether a kube-proxy runs: then chains with its names may be its own. */
  readonly hasKubeProxy: () => boolean;
  /** Reads our rules back from the kernel. */
  readonly recognise: () => Promise<NodeState | Refusal>;
}

/**
 * Replaces an active generation that cannot be read any more, and has no copy. The rules in the kernel become the active generation where
 * they can be told by their names. Otherwise the newest older one with Services is active: old rules are better than a node that takes no
 * bundle. Where there is none, rules with a kube-proxy's names are taken for ours, if no kube-proxy runs. After a boot, where none is left, the one from before Sluice, so that the next bundle goes in.
 * @returns the outcome; undefined if nothing is damaged, or the rules stay and the node is halted
 */
export async function fallBack(node: FallBackNode, ports: Ports): Promise<Outcome | undefined> {
  const { journal, kernel, report } = ports;
  const { damaged } = journal;
  if (!damaged) return undefined;
  const observed = await kernel.observe(node.families);
  const bare = await isBare(observed, ports);
  const target = bare
    ? ((await newestBefore(damaged.number, ports)) ?? (await beforeSluice(ports)))
    : ((await inKernel(damaged.number, node)) ??
      (await takenBack(damaged.number, observed, node, ports)) ??
      (await byNames(damaged.number, observed, node, ports)));
  if (!target) return undefined;
  const isSame = target.number === damaged.number;
  const what = isSame ? 'the rules in the kernel are active' : `generation ${target.number} is active`;
  const because = `generation ${damaged.number} cannot be read, so ${what}: ${damaged.because}`;
  await journal.fallBack(target, because);
  report('fell-back', { from: damaged.number, to: target.number });
  return { kind: 'rolled-back', because };
}

/** A generation with Services. */
async function newestBefore(number: number, { journal }: Pick<Ports, 'journal'>): Promise<Generation | undefined> {
  for (let older = number - 1; older > 0; older--) {
    const generation = await journal.generation(older);
    if (generation) return generation;
  }
  return undefined;
}

/** Without its rules, if they cannot be read: only a rollback to generation 0 would need them. */
async function beforeSluice({ journal }: Pick<Ports, 'journal'>): Promise<Generation> {
  const nothing: NodeState = { families: {}, sysctls: new Map() };
  return (await journal.generation(0)) ?? { number: 0, revision: 0, version: 'before', state: nothing };
}

/** The rules in the kernel, under the number of the generation that they are taken for. */
async function inKernel(number: number, { recognise }: FallBackNode): Promise<Generation | undefined> {
  const state = await recognise();
  return 'problems' in state ? undefined : { number, revision: 0, version: 'recognised', state };
}

/**
 * The rules of layout flat or mode ipvs in the kernel, by names that they share with a kube-proxy's. The journal says that this node has a
 * generation of Sluice, and no kube-proxy runs: so they are taken for it, and serve until the next bundle replaces them.
 */
async function byNames(
  number: number,
  observed: Observed,
  { hasKubeProxy }: FallBackNode,
  { kernel }: Pick<Ports, 'kernel'>,
): Promise<Generation | undefined> {
  const names = foreignProxyChains(observed, {});
  if (countNames(names) === 0 || hasKubeProxy()) return undefined;
  const virtual = await findProxy(kernel, true, [], []);
  if ('problems' in virtual) return undefined;
  const families = ownState(observed, names, { families: {} });
  return {
    number,
    revision: 0,
    version: 'recognised',
    state: { families, sysctls: new Map(), ...virtual },
  };
}

/** Loads an older generation over the rules of one that is not known: every chain with a name of ours is taken for ours. */
async function takenBack(
  number: number,
  observed: Observed,
  { hasKubeProxy }: FallBackNode,
  ports: Ports,
): Promise<Generation | undefined> {
  const target = await newestBefore(number, ports);
  if (!target || hasKubeProxy()) return undefined;
  const { state } = target;
  const left = isTree(state) ? leakedChains(observed, state) : foreignProxyChains(observed, {});
  try {
    await restore(state, joinNames(chainNames(state), left), ports);
  } catch (error) {
    ports.report('not-taken-back', { because: messageOf(error) });
    return undefined;
  }
  return target;
}
