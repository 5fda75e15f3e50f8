import type { Family } from '@sluice/netfilter';
import type { Adoption, RulesElsewhere } from '../ports/adoption.ts';
import type { Generation } from '../ports/journal.ts';
import { familyNames, type NodeState } from '../ports/node-state.ts';
import type { Outcome } from '../ports/outcome.ts';
import { type AdoptionParts, pauseMs } from './adopt.ts';
import { hasWritten, proxyState, standsProxy } from './proxy-rules.ts';
import { proxyIpvs } from './proxy-ipvs.ts';
import { flowChange } from '../plan/flows.ts';
import { messageOf } from '../message.ts';
import { KernelError, type TrackedFlow } from '../ports/kernel.ts';

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
    const mayGo = (journal.active?.number ?? 0) === 0 || (await untilWritten(before, {}, parts));
    return mayGo ? undone(parts) : { kind: 'waits' };
  }
  const leftovers = await leftoversOf(adoption, parts);
  await journal.keepAdoption({ ...adoption, goal: 'kube-proxy', leftovers });
  const why = await kubeProxy.release(adoption.hold);
  if (why !== undefined) say(`kube-proxy did not start: ${why}`);
  say('kube-proxy may run again; Sluice serves until it has written its rules');
  if (Object.keys(leftovers).length > 0)
    say('rules that an earlier kube-proxy left elsewhere do not count, as long as they are the same');
  if (await untilWritten(before, leftovers, parts)) return undone(parts);
  if (!adoption.isStored || !before) return { kind: 'waits' };
  say('kube-proxy has not written its rules in time: those of generation 0 come back');
  const outcome = await parts.rollBackTo(before);
  // Sluice has no rules left, and those of generation 0 are kube-proxy's.
  if (outcome.kind === 'confirmed') await journal.forget();
  return { kind: 'old-rules', outcome };
}

/** Removes Sluice's rules, then the UDP flows that kube-proxy's rules do not have: it did not see them begin, and may keep them. */
async function undone(parts: UndoParts): Promise<UndoEnding> {
  const { journal, kernel, say } = parts;
  const active = journal.active?.state;
  const flows = active ? await flowsWithoutProxy(active, parts) : [];
  const steps = await parts.cleanUp();
  try {
    if (flows.length > 0) await kernel.forgetFlows(flows);
  } catch (error) {
    say(`connections of UDP to endpoints that kube-proxy does not have were not deleted: ${messageOf(error)}`);
  }
  return { kind: 'undone', steps };
}

/** The UDP flows of Sluice that kube-proxy does not have. Of one in mode nftables, which reconciles flows by itself, nothing is there. */
async function flowsWithoutProxy(active: NodeState, { kernel, families }: UndoParts): Promise<readonly TrackedFlow[]> {
  const observed = await kernel.observe(families);
  if (!standsProxy(observed, active)) return [];
  // In mode ipvs its endpoints are those of virtual servers.
  const ipvs = await proxyIpvs(kernel);
  return flowChange(active, { ...proxyState(observed, active), ...(ipvs ? { ipvs } : {}) }).old;
}

/** What an earlier kube-proxy left elsewhere: rules from before the first call of an undo, where none ran. */
async function leftoversOf(adoption: Adoption, { kubeProxy, rulesElsewhere }: UndoParts): Promise<RulesElsewhere> {
  if (adoption.goal === 'kube-proxy') return adoption.leftovers ?? {};
  return kubeProxy.running().length > 0 ? {} : rulesElsewhere();
}

/** @returns undefined: a tool was killed, and the next look asks again */
async function unlessKilled(read: UndoParts['rulesElsewhere']): Promise<RulesElsewhere | undefined> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof KernelError) return undefined;
    throw error;
  }
}

/**
 * Waits until a kube-proxy that runs has written the rules of each family that it served before.
 * @param before generation 0
 * @param leftovers rules elsewhere that do not show it
 */
async function untilWritten(
  before: Generation | undefined,
  leftovers: RulesElsewhere,
  parts: UndoParts,
): Promise<boolean> {
  const { kernel, clock, kubeProxy, families, waitMs, rulesElsewhere } = parts;
  const end = clock.bootMs() + waitMs;
  const served = families.filter((family) => before?.state.families[family]?.nat.chains.has('KUBE-SERVICES'));
  const isThere = async (): Promise<boolean> => {
    if (kubeProxy.running().length === 0) return false;
    const elsewhere = await unlessKilled(rulesElsewhere);
    if (!elsewhere) return false;
    const observed = await kernel.observe(families);
    const isWritten = (family: Family): boolean =>
      hasWritten(observed, family) || (elsewhere[family] ?? leftovers[family]) !== leftovers[family];
    // Generation 0 has nothing of a kube-proxy in mode nftables: which families that served is not known.
    return served.length > 0 ? served.every(isWritten) : familyNames.some(isWritten);
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
