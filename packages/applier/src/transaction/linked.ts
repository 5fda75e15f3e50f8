import { marksLate } from '@sluice/bundle';
import type { Ports } from '../rollout/ports.ts';
import { familiesOf, tableOf } from '../rollout/state.ts';
import { isTree } from './entries.ts';

type What = {
  readonly journal: Pick<Ports['journal'], 'active'>;
  readonly kernel: Pick<Ports['kernel'], 'knowsBpf'>;
};

/**
 * How the rules of a bundle are linked in layout `tree`, with rules that ask `-m bpf` or with a chain for each endpoint: as what stands
 * is, whatever has become of the kernel. Linked otherwise, every Service would look changed, and an update of endpoints would be none.
 */
export function linksWithBpf({ journal: { active }, kernel }: What): boolean {
  if (!active || !isTree(active.state)) return kernel.knowsBpf;
  return familiesOf(active.state).some((family) => marksLate(tableOf(active.state, family, 'nat')));
}

/** Whether the kernel lacks what the rules ask that stand: pods do not reach themselves by Services then. */
export function hasLostBpf(what: What): boolean {
  return linksWithBpf(what) && !what.kernel.knowsBpf;
}
