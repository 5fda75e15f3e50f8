import { type Family, markingChain, marksLate, type Problem, refusal } from '@sluice/netfilter';
import type { NftLack } from '../../ports/nftables/ports.ts';
import type { Kernel } from '../../ports/kernel.ts';
import type { Ports } from '../../ports/ports.ts';
import { familyNames, type NodeState, type Observed, familiesOf, tableOf, isTree } from '../../ports/node-state.ts';

/**
 * Whether layout `tree` must provide the chains of kube-proxy that CNI plugins jump to. While kube-proxy's rules stay beside ours it does
 * not, because they contain these chains.
 * @param families those that the node has tools for
 * @returns also the tables, if they had to be read
 */
export async function providesKubeChains(
  families: readonly Family[],
  { journal, kernel }: Pick<Ports, 'journal' | 'kernel'>,
): Promise<{ readonly provides: boolean; readonly tables?: Observed }> {
  const { active } = journal;
  if (active && active.number > 0) return { provides: !isTree(active.state) || hasMark(active.state) };
  const tables = await kernel.observe(families);
  return { provides: !familyNames.some((family) => tables[family]?.nat.chains.has(markingChain)), tables };
}

function hasMark({ families }: NodeState): boolean {
  return familyNames.some((family) => families[family]?.nat.chains.has(markingChain));
}

type LinkingFacts = {
  readonly journal: Pick<Ports['journal'], 'active'>;
  readonly kernel: Pick<Ports['kernel'], 'knowsBpf'>;
};

/**
 * Whether bundles are linked in layout `tree` with rules that use `-m bpf`, or with a chain for each endpoint: as the active generation
 * is, even if the kernel has lost `-m bpf`. Otherwise every Service would look changed, and an endpoint update would be a release.
 */
export function linksWithBpf({ journal: { active }, kernel }: LinkingFacts): boolean {
  if (!active || !isTree(active.state)) return kernel.knowsBpf;
  return familiesOf(active.state).some((family) => marksLate(tableOf(active.state, family, 'nat')));
}

/** Whether the active generation uses `-m bpf` and the kernel has lost it: pods then do not reach themselves through Services. */
export function hasLostBpf(what: LinkingFacts): boolean {
  return linksWithBpf(what) && !what.kernel.knowsBpf;
}

/** Whether loading the module of mode ipvs may solve a problem. */
export function lacksModule({ code, message }: Problem): boolean {
  return code === 'NODE_SYSCTL_FIXED' && message.includes(' net.ipv4.vs.');
}

export const withoutIpvs = (because: string): Problem =>
  refusal(
    'NODE_LACKS_NEED',
    `Cannot apply a profile in mode ipvs: the node's kernel does not support it: ${because}`,
    'Load the module (`modprobe ip_vs`), or give the node a profile in mode iptables',
  );

const noNft: NftLack = {
  why: 'nft is not installed',
  hint: 'Install the package nftables (nft 1.0.6 or newer), or give the node a profile in mode iptables',
};

/** Why a node cannot run mode nftables. @returns undefined if it can */
export async function nftProblem({ nft }: Pick<Kernel, 'nft'>): Promise<Problem | undefined> {
  const lack = nft ? await nft.lack() : noNft;
  return lack && refusal('NODE_TOOL_MISSING', `Cannot apply a profile in mode nftables: ${lack.why}`, lack.hint);
}
