import { compareText, type Problem } from '@sluice/netfilter';
import {
  fileDigest,
  isProblem,
  readRelease,
  type Receipt,
  receiptLimits,
  type ReceiptOutcome,
  withoutQuotes,
} from '@sluice/bundle';
import type { Seal } from '../../inbox/files.ts';
import type { Generation } from '../../ports/journal.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { ProbeResult } from '../../ports/probes.ts';

/** The result of a change, for a receipt. */
export interface Account {
  readonly outcome: ReceiptOutcome;
  readonly codes?: readonly string[];
  readonly because?: string;
}

/** The account of an outcome, or of a refused directory. */
export function accountOf(
  ending: Outcome | { readonly kind: 'refused'; readonly problems: readonly Problem[] },
): Account {
  switch (ending.kind) {
    case 'same':
    case 'confirmed':
      return confirmed(ending.kind, ending.generation);
    case 'rolled-back':
      return { outcome: 'rolled-back', because: ending.because };
    case 'pending':
      return { outcome: 'rolled-back', because: `${ending.because}; the rollback goes on` };
    case 'held':
      return { outcome: 'held', because: `${ending.because}; the rollback failed: ${ending.rollback}` };
    case 'refused':
      return refused('problems' in ending ? ending.problems : ending.refusal.problems);
  }
}

/** Of a generation that is in the kernel: also later, its receipt does not say that a release runs which it is only a part of. */
export function confirmed(outcome: 'same' | 'confirmed', { partial }: Pick<Generation, 'partial'>): Account {
  if (!partial) return { outcome };
  return { outcome: 'partial', because: `without ${partial.services.join(', ')}: ${partial.because}` };
}

function refused(problems: readonly Problem[]): Account {
  const [first] = problems;
  const codes = [...new Set(problems.map(({ code }) => code))].toSorted(compareText);
  return { outcome: 'refused', codes, ...(first ? { because: first.message } : {}) };
}

/**
 * The release that a seal belongs to, with its version for a node.
 * @param seal of an accepted tree, whose signatures are verified
 * @returns null for a bundle that is not a release, or one without this node
 */
export function releaseOf(seal: Seal | undefined, node: string): Receipt['release'] {
  if (seal?.release === undefined) return null;
  const release = readRelease(seal.release);
  if (isProblem(release)) return null;
  const { cluster, serial, nodes } = release;
  const version = Object.hasOwn(nodes, node) ? nodes[node]?.version : undefined;
  return version === undefined ? null : { cluster, serial, digest: fileDigest(seal.sums), version };
}

/** The part of a receipt that does not depend on its time: two equal ones in a row are one receipt. */
export type ReceiptContent = Omit<Receipt, 'number' | 'at'>;

/** The content of a receipt. Output of probes stays on the node: it may contain anything. */
export function contentOf(
  node: string,
  { outcome, codes = [], because = '' }: Account,
  known: Pick<Receipt, 'release' | 'standing' | 'serving' | 'draining' | 'sluiced'>,
  probes: readonly ProbeResult[],
): ReceiptContent {
  const answers = probes.map(({ name, healthy }) => ({ name, healthy }));
  return {
    node,
    outcome,
    ...known,
    codes: codes.slice(0, receiptLimits.codesMax),
    because: withoutQuotes(because),
    probes: answers.toSorted((a, b) => compareText(a.name, b.name)).slice(0, receiptLimits.probesMax),
  };
}
