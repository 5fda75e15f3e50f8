import type { Kernel } from '../ports/kernel.ts';
import type { Placement } from '@sluice/netfilter';

const ofKernel = new WeakMap<Kernel, Placement>();

/** What the table holds, as far as this process knows without reading it. */
export const knownPlacement = (kernel: Kernel): Placement | undefined => ofKernel.get(kernel);

/** Called after each step, and whenever the table was read. @param placement undefined: the table must be read */
export function learnPlacement(kernel: Kernel, placement: Placement | undefined): void {
  if (placement) ofKernel.set(kernel, placement);
  else ofKernel.delete(kernel);
}
