import type { Generation } from '../ports/journal.ts';
import type { Outcome } from '../ports/outcome.ts';
import { type AdoptionParts, pauseMs } from './adopt.ts';
import { hasWritten } from './proxy-rules.ts';

export type UndoEnding =
  /** kube-proxy serves again by rules that it wrote itself; those of Sluice are removed. */
  | { readonly kind: 'undone'; readonly steps: number }
  /** kube-proxy did not write its rules in time: those that it had are back, with their old endpoints. */
  | { readonly kind: 'old-rules'; readonly outcome: Outcome }
  /** kube-proxy did not write its rules in time, and there are none to bring back: Sluice serves on. To be done again. */
  | { readonly kind: 'waits' };

/** What an undo needs besides. */
export interface UndoParts extends Omit<AdoptionParts, 'journal'> {
  readonly journal: AdoptionParts['journal'] & { generation(number: number): Promise<Generation | undefined> };
  /** Removes Sluice's rules, but for chains that kube-proxy has written under the same names. @returns the number of steps */
  readonly cleanUp: () => Promise<number>;
  readonly rollBackTo: (target: Generation) => Promise<Outcome>;
}

/**
 * Moves a node back to kube-proxy: it returns beneath Sluice's rules, and these go when it has written its own. So a packet meets the one or
 * the other at every moment. Where kube-proxy cannot write, such as without an API server, the rules of generation 0 come back instead.
 */
export async function undo(parts: UndoParts): Promise<UndoEnding> {
  const { journal, kubeProxy, say } = parts;
  const { adoption } = journal;
  const before = await journal.generation(0);
  if (!adoption) {
    // kube-proxy was not touched by a move. Its rules stand beneath, or there are none: it may have been replaced in another way, or never run.
    const mayGo = (journal.active?.number ?? 0) === 0 || (await untilWritten(before, parts));
    return mayGo ? { kind: 'undone', steps: await parts.cleanUp() } : { kind: 'waits' };
  }
  await journal.keepAdoption({ ...adoption, goal: 'kube-proxy' });
  const why = await kubeProxy.release(adoption.hold);
  if (why !== undefined) say(`kube-proxy did not start: ${why}`);
  say('kube-proxy may run again; Sluice serves until it has written its rules');
  if (await untilWritten(before, parts)) return { kind: 'undone', steps: await parts.cleanUp() };
  if (!adoption.isStored || !before) return { kind: 'waits' };
  say('kube-proxy has not written its rules in time: those of generation 0 come back');
  const outcome = await parts.rollBackTo(before);
  // Sluice has no rules left, and those of generation 0 are kube-proxy's.
  if (outcome.kind === 'confirmed') await journal.forget();
  return { kind: 'old-rules', outcome };
}

/**
 * Waits until a kube-proxy that runs has written the rules of each family that it served before.
 * @param before generation 0
 */
async function untilWritten(before: Generation | undefined, parts: UndoParts): Promise<boolean> {
  const { kernel, clock, kubeProxy, families, waitMs, hasRulesElsewhere } = parts;
  const end = clock.bootMs() + waitMs;
  const served = families.filter((family) => before?.state.families[family]?.nat.chains.has('KUBE-SERVICES'));
  const isThere = async (): Promise<boolean> => {
    if (kubeProxy.running().length === 0) return false;
    if ((await kernel.proxyTraces()).nftables || (await hasRulesElsewhere())) return true;
    const observed = await kernel.observe(families);
    const wanted = served.length > 0 ? served : families.slice(0, 1);
    return wanted.every((family) => hasWritten(observed, family));
  };
  for (;;) {
    if (await isThere()) {
      // A table of the other family may follow, and what was written last is on its way to all processors.
      await clock.sleep(settleMs);
      return true;
    }
    if (clock.bootMs() >= end) return false;
    await clock.sleep(pauseMs);
  }
}

const settleMs = 1_000;
