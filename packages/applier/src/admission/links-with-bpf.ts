import { marksLate } from '@sluice/netfilter';
import type { Ports } from '../ports/ports.ts';
import { familiesOf, tableOf } from '../ports/node-state.ts';
import { isTree } from '../plan/entries.ts';

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
