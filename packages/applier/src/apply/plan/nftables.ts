import { KernelError } from '../../ports/failure.ts';
import type { Family, NftState, Placement, PlacementChange } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { type NftTable, stepsOfChange } from '../../ports/nftables/plan.ts';
import { holdsPlacement, repairFamily, repairTable } from '../../ports/nftables/repair.ts';
import type { ObservedNft } from '../../ports/nftables/observed.ts';
import type { Kernel, Step } from '../../ports/kernel.ts';

const ofKernel = new WeakMap<Kernel, Placement>();
/** What it held before the last step, whether that was taken or not. */
const before = new WeakMap<Kernel, Placement>();

/** What the table holds, as far as this process knows without reading it. */
const knownPlacement = (kernel: Kernel): Placement | undefined => ofKernel.get(kernel);

function learnPlacement(kernel: Kernel, placement: Placement | undefined): void {
  if (placement) ofKernel.set(kernel, placement);
  else ofKernel.delete(kernel);
}

/** Carries a step out. Until one of the table has succeeded, what the table holds is unknown. */
export async function applyStep(kernel: Kernel, step: Step): Promise<void> {
  if (step.kind !== 'nft') return kernel.apply(step);
  const placement = knownPlacement(kernel);
  if (placement) before.set(kernel, placement);
  else before.delete(kernel);
  learnPlacement(kernel, undefined);
  await kernel.apply(step);
  learnPlacement(kernel, step.leadsTo);
}

/**
 * Whether the table holds what this process put into it last; true where that is not known. Reads all of it.
 * @param isRefused the kernel has refused the last step, and taken nothing of it
 */
export async function isTableIntact(kernel: Kernel, isRefused = false): Promise<boolean> {
  const placement = knownPlacement(kernel) ?? (isRefused ? before.get(kernel) : undefined);
  if (!placement || !kernel.nft) return true;
  const observed = await kernel.nft.observe();
  return observed !== undefined && holdsPlacement(observed, placement);
}

/** What of the table need not be read. */
export interface KnownTable {
  /** It is as this process left it, if it remembers it. */
  readonly nft?: boolean;
  readonly interrupt?: AbortSignal | undefined;
  /** The only family whose rules are put in order: the kernel refuses the whole. */
  readonly family?: Family | undefined;
}

/**
 * Reads the table of mode nftables, and plans the steps that put it in order first.
 * @param expected what it should hold; undefined: it is to go, so it is not mended
 * @throws KernelError if nft is not installed or fails
 */
export async function readTable(expected: NftState | undefined, kernel: Kernel, known: KnownTable): Promise<NftTable> {
  if (!kernel.nft) throw new KernelError('nft', 'it is not installed', 'missing');
  const remembered = known.nft === true ? knownPlacement(kernel) : undefined;
  if (remembered) return { mend: [], held: remembered, exists: true };
  const observed = await kernel.nft.observe(known.interrupt);
  if (!expected) return { mend: [], held: undefined, exists: observed !== undefined };
  if (known.family) return mendFamily(observed, expected, known.family);
  const change = repairTable(observed, expected);
  const { first, late } = stepsOfChange(change, observed ? whyOf(change) : 'there is no table');
  const mend = [...first, ...late];
  if (mend.length === 0) learnPlacement(kernel, change.afterLate);
  return { mend, held: change.afterLate, exists: true };
}

function mendFamily(observed: ObservedNft | undefined, expected: NftState, family: Family): NftTable {
  const change = repairFamily(observed, expected, family);
  if (!change) throw new KernelError('nft', 'the table has other settings, and changes as a whole', 'refused');
  const { text, settled } = change;
  // A part of a release may be left in it: what it holds is not known.
  const step = { kind: 'nft', text, because: `its part of ${family} differs`, leadsTo: undefined } as const;
  return { mend: text === '' ? [] : [step], held: settled, exists: true };
}

function whyOf({ removes = [] }: PlacementChange): string {
  const shown = removes.slice(0, limits.changesShownMax).join(', ');
  return removes.length === 0 ? 'the table differs' : `another program added ${shown} to the table`;
}
