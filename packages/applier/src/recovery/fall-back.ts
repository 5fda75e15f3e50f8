import type { Family } from '@sluice/netfilter';
import { isBare } from './bare.ts';
import type { Outcome } from '../ports/outcome.ts';
import type { Generation } from '../ports/journal.ts';
import type { Ports } from '../ports/ports.ts';

/**
 * Replaces an active generation that cannot be read any more. As long as the kernel holds rules they stay, and the node stays halted.
 * After a boot the kernel holds none: old rules are then better than no Service at all, so the newest older generation that can be read
 * becomes active.
 * @param families those that the node has tools for
 * @returns the outcome; undefined if nothing is damaged, or the rules stay
 */
export async function fallBack(
  families: readonly Family[],
  { journal, kernel, report }: Pick<Ports, 'journal' | 'kernel' | 'report'>,
): Promise<Outcome | undefined> {
  const { damaged } = journal;
  if (!damaged) return undefined;
  if (!(await isBare(await kernel.observe(families), { kernel }))) return undefined;
  const target = await newestBefore(damaged.number, journal);
  if (!target) return undefined;
  const because = `generation ${damaged.number} cannot be read, so generation ${target.number} is active: ${damaged.because}`;
  await journal.fallBack(target, because);
  report('fell-back', { from: damaged.number, to: target.number });
  return { kind: 'rolled-back', because };
}

async function newestBefore(
  number: number,
  journal: Pick<Ports['journal'], 'generation'>,
): Promise<Generation | undefined> {
  for (let older = number - 1; older >= 0; older--) {
    const generation = await journal.generation(older);
    if (generation) return generation;
  }
  return undefined;
}
