import type { BundleFiles } from '@sluice/bundle';
import type { Hold, KubeProxy, RulesElsewhere } from '../../ports/adoption.ts';
import type { Family } from '@sluice/netfilter';
import { withoutCounters } from '../../apply/plan/ownership.ts';
import type { Journal } from '../../ports/journal.ts';
import { type Outcome, partialOf } from '../../ports/outcome.ts';
import type { Ports } from '../../ports/ports.ts';
import { messageOf } from '../../message.ts';
import type { IpvsWindow } from '../../ports/ipvs/window.ts';
import { announceWindow, proxyIpvs, removeProxyIpvs } from './proxy-ipvs.ts';
import { proxyState, hasProxyRules } from './proxy-rules.ts';

/** Puts a bundle into the kernel, as `Reconciler.put` does. */
export interface Putter {
  put(files: BundleFiles, byHand: boolean): Promise<Outcome>;
  /** Repairs drift; with `takeOrder` our jumps go before those of others. */
  repair(): Promise<unknown>;
  /** Deletes flows of UDP to endpoints that their frontend does not have. @throws Error when they cannot be read */
  reconcileFlows(): Promise<unknown>;
}

/** What a move needs. */
export interface AdoptionDependencies {
  readonly journal: Pick<Journal, 'active' | 'adoption' | 'keepAdoption' | 'keepReplaced' | 'forget'>;
  readonly kernel: Pick<Ports['kernel'], 'observe' | 'apply' | 'proxyTraces' | 'ipvs' | 'forgetFlows'>;
  readonly clock: Pick<Ports['clock'], 'bootMs' | 'sleep' | 'now'>;
  readonly kubeProxy: KubeProxy;
  /** The families whose tables the node can read. */
  readonly families: readonly Family[];
  /** Removes the tables of a kube-proxy in mode nftables. @returns their number */
  readonly removeTables: () => Promise<number>;
  /** What a kube-proxy has written elsewhere than into Sluice's rule store. */
  readonly rulesElsewhere: () => Promise<RulesElsewhere>;
  /** Says what is done now, for people. */
  readonly say: (what: string) => void;
  /** How long kube-proxy may take to stop or to write its rules, and connections of IPVS to end. */
  readonly waitMs: number;
}

export type AdoptEnding =
  /** The release was refused, rolled back, or confirmed without some Services: kube-proxy runs as before, and was not touched. */
  | { readonly kind: 'not-confirmed'; readonly outcome: Outcome }
  /** Sluice serves, and kube-proxy still runs beneath it: nothing of it was removed. To be done again. */
  | { readonly kind: 'beneath'; readonly running: readonly string[] }
  /** Sluice serves and kube-proxy is stopped; the removal of its rules was rolled back. To be done again. */
  | { readonly kind: 'not-removed'; readonly outcome: Outcome }
  | {
      readonly kind: 'adopted';
      readonly outcome: Outcome;
      /** From a kube-proxy in mode ipvs. */
      readonly ipvs?: IpvsWindow;
    };

/**
 * Moves a node from kube-proxy to Sluice.
 *
 * ```
 * in front   the release goes in before kube-proxy's rules, and on probation; kube-proxy runs and keeps its rules fresh.
 *            Rolled back, or without a heartbeat: packets meet kube-proxy's rules
 * hold       Sluice serves and is confirmed: kube-proxy is stopped and kept from returning
 * store      its rules become those of generation 0
 * instead    the same bundle once more, with kube-proxy's rules taken over: they are removed in a transaction of its own, with probation
 * ```
 *
 * Every step begins by looking at what is done already, so that a process which ended anywhere is followed by another `adopt`, or by `undo`.
 * What must not be lost is in the journal before it is done: the hold before kube-proxy is stopped, its rules before they are removed.
 * @param front puts bundles in front of kube-proxy's rules; with `takeOrder`
 * @param instead takes them over
 */
export async function adopt(
  files: BundleFiles,
  hold: Hold,
  { front, instead }: { readonly front: Putter; readonly instead: Putter },
  parts: AdoptionDependencies,
): Promise<AdoptEnding> {
  const { journal, kubeProxy, say } = parts;
  await announceWindow(parts);
  say("the bundle goes in front of kube-proxy's rules, on probation");
  const outcome = await front.put(files, true);
  if (outcome.kind !== 'confirmed' && outcome.kind !== 'same') return { kind: 'not-confirmed', outcome };
  // Services that were left out may have no rules but kube-proxy's.
  if (partialOf(outcome)) return { kind: 'not-confirmed', outcome };
  // A kube-proxy that started after Sluice has inserted its jumps first.
  await front.repair();
  await forgetStale(front, say);
  say(`confirmed: generation ${outcome.generation.number} serves; kube-proxy stops now`);
  await journal.keepAdoption({ goal: 'sluice', hold, isStored: journal.adoption?.isStored ?? false });
  await kubeProxy.hold(hold);
  const running = await untilStopped(parts);
  if (running.length > 0) return { kind: 'beneath', running };
  await storeProxy(parts);
  say('kube-proxy has stopped; its rules are stored as generation 0, and removed now');
  const removal = await instead.put(files, true);
  if (removal.kind !== 'confirmed' && removal.kind !== 'same') return { kind: 'not-removed', outcome: removal };
  await parts.removeTables();
  const ipvs = journal.active && (await removeProxyIpvs(journal.active.state, parts));
  return { kind: 'adopted', outcome: removal, ...(ipvs ? { ipvs } : {}) };
}

/** Clients of UDP that kube-proxy sent to endpoints which the bundle does not have would stay there as long as they send. */
async function forgetStale(front: Putter, say: AdoptionDependencies['say']): Promise<void> {
  try {
    await front.reconcileFlows();
  } catch (error) {
    say(
      `connections of UDP to endpoints that are gone were not deleted; sluiced tries again when it runs: ${messageOf(error)}`,
    );
  }
}

/** Generation 0 gets kube-proxy's rules once: a later call may find a part of them only. */
export async function storeProxy(parts: Pick<AdoptionDependencies, 'journal' | 'kernel' | 'families'>): Promise<void> {
  const { journal, kernel, families } = parts;
  const { active, adoption } = journal;
  if (!active || !adoption || adoption.isStored) return;
  const observed = await kernel.observe(families);
  if (!hasProxyRules(observed, active.state)) return;
  const ipvs = await proxyIpvs(kernel);
  await journal.keepReplaced({ ...withoutCounters(proxyState(observed, active.state)), ...(ipvs ? { ipvs } : {}) });
}

/** @returns what still runs in the end */
async function untilStopped({ kubeProxy, clock, waitMs }: AdoptionDependencies): Promise<readonly string[]> {
  const end = clock.bootMs() + waitMs;
  for (;;) {
    const running = kubeProxy.running();
    if (running.length === 0 || clock.bootMs() >= end) return running;
    await clock.sleep(pauseMs);
  }
}

/** Between two looks at processes and rules. */
export const pauseMs = 200;
