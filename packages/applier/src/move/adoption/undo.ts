import { KernelError } from '../../ports/failure.ts';
import { deletionOf, type Family, servicesChain } from '@sluice/netfilter';
import type { Adoption, RulesElsewhere } from '../../ports/adoption.ts';
import type { Generation } from '../../ports/journal.ts';
import { familyNames, type NodeState } from '../../ports/node-state.ts';
import type { Outcome } from '../../ports/outcome.ts';
import { type AdoptionDependencies, pauseMs, storeProxy } from './adopt.ts';
import { hasWritten, lastRules, proxyChains, proxyState } from './proxy-rules.ts';
import { proxyIpvs } from './proxy-ipvs.ts';
import { flowChange } from '../../apply/plan/flows.ts';
import { messageOf } from '../../message.ts';
import type { TrackedFlow } from '../../ports/kernel.ts';

export type UndoEnding =
  /** kube-proxy serves again by rules that it wrote itself; those of Sluice are removed. */
  | { readonly kind: 'undone'; readonly steps: number }
  /** kube-proxy did not write its rules in time: those that it had are back, with their old endpoints. */
  | { readonly kind: 'old-rules'; readonly outcome: Outcome }
  /** kube-proxy did not write its rules in time, and there are none to bring back: Sluice serves on. To be done again. */
  | { readonly kind: 'waits' };

/** What an undo needs besides. */
export interface UndoDependencies extends Omit<AdoptionDependencies, 'journal'> {
  readonly journal: AdoptionDependencies['journal'] & { generation(number: number): Promise<Generation | undefined> };
  /** Removes Sluice's rules, but for chains that kube-proxy has written under the same names. @returns the number of steps */
  readonly cleanUp: () => Promise<number>;
  readonly rollBackTo: (target: Generation) => Promise<Outcome>;
}

/**
 * Moves a node back to kube-proxy: it returns beneath Sluice's rules, and these go when it has written its own. So a packet meets the one or
 * the other at every moment. Where kube-proxy cannot write, such as without an API server, the rules of generation 0 come back instead.
 */
export async function undo(parts: UndoDependencies): Promise<UndoEnding> {
  const { journal, say } = parts;
  if (!journal.adoption) {
    // kube-proxy was not touched by a move. Its rules stand beneath, or there are none: it may have been replaced in another way, or never run.
    const mayGo = (journal.active?.number ?? 0) === 0 || (await untilWritten(await journal.generation(0), {}, parts));
    return mayGo ? undone({}, parts) : { kind: 'waits' };
  }
  const adoption = await letReturn(journal.adoption, parts);
  const { leftovers = {} } = adoption;
  const before = await journal.generation(0);
  if (await untilWritten(before, leftovers, parts)) return undone(leftovers, parts);
  if (!adoption.isStored || !before) return { kind: 'waits' };
  say('kube-proxy has not written its rules in time: those of generation 0 come back');
  const outcome = await parts.rollBackTo(before);
  // Sluice has no rules left, and those of generation 0 are kube-proxy's.
  if (outcome.kind === 'confirmed') await journal.forget();
  return { kind: 'old-rules', outcome };
}

/**
 * Lets kube-proxy return, once nothing that an earlier one left can be taken for its rules.
 * @returns the adoption as the journal has it now
 */
async function letReturn(begun: Adoption, parts: UndoDependencies): Promise<Adoption> {
  const { journal, kubeProxy, say } = parts;
  const leftovers = await leftoversOf(begun, parts);
  const isGone = kubeProxy.running().length === 0;
  if (isGone) await storeProxy(parts);
  const adoption: Adoption = { ...(journal.adoption ?? begun), goal: 'kube-proxy', leftovers };
  await journal.keepAdoption(adoption);
  if (isGone) await outdate(parts);
  const why = await kubeProxy.release(adoption.hold);
  if (why !== undefined) say(`kube-proxy did not start: ${why}`);
  say('kube-proxy may run again; Sluice serves until it has written its rules');
  if (Object.keys(leftovers).length > 0)
    say('rules that an earlier kube-proxy left elsewhere do not count, as long as they are the same');
  return adoption;
}

/**
 * Removes the rule by which `hasWritten` knows the rules of a kube-proxy, from those of one that has stopped: the next one may write into
 * another store, or in another mode. It writes this rule with all others when it starts; until then Sluice serves, and generation 0 has it.
 * Sluice's own, in mode ipvs and layout flat, has the same form and stays.
 */
async function outdate({ kernel, families, journal }: UndoDependencies): Promise<void> {
  const observed = await kernel.observe(families);
  const foreign = proxyChains(observed, journal.active?.state ?? { families: {}, sysctls: new Map() });
  for (const family of families) {
    if (foreign[family]?.nat.includes(servicesChain) !== true) continue;
    const lines = lastRules(observed, family).map(deletionOf);
    if (lines.length === 0) continue;
    const text = ['*nat', ...lines, 'COMMIT', ''].join('\n');
    await kernel.apply({ kind: 'restore-table', family, table: 'nat', text, because: 'kube-proxy has stopped' });
  }
}

/** Removes Sluice's rules, then the UDP flows that kube-proxy's rules do not have: it did not see them begin, and may keep them. */
async function undone(leftovers: RulesElsewhere, parts: UndoDependencies): Promise<UndoEnding> {
  const { journal, kernel, say } = parts;
  const active = journal.active?.state;
  const { flows, hasOld } = active ? await proxyInStore(active, leftovers, parts) : { flows: [], hasOld: false };
  const steps = await parts.cleanUp();
  if (hasOld) say('rules that an earlier kube-proxy left in the rule store of Sluice are still there: remove them');
  try {
    if (flows.length > 0) await kernel.forgetFlows(flows);
  } catch (error) {
    say(`connections of UDP to endpoints that kube-proxy does not have were not deleted: ${messageOf(error)}`);
  }
  return { kind: 'undone', steps };
}

/** What Sluice's store shows of kube-proxy when Sluice's rules go. */
interface ProxyInStore {
  /** The UDP flows of Sluice that kube-proxy does not have. */
  readonly flows: readonly TrackedFlow[];
  /** Whether rules of an earlier kube-proxy are left. */
  readonly hasOld: boolean;
}

/**
 * Flows are compared in the families whose rules kube-proxy has written into Sluice's store, and not elsewhere: rules there beside newer
 * ones elsewhere are of an earlier kube-proxy, and one in mode nftables reconciles flows by itself.
 */
async function proxyInStore(
  active: NodeState,
  leftovers: RulesElsewhere,
  { kernel, families, rulesElsewhere }: UndoDependencies,
): Promise<ProxyInStore> {
  const observed = await kernel.observe(families);
  const state = proxyState(observed, active);
  const standing = families.filter((family) => (state.families[family]?.nat.jumps.length ?? 0) > 0);
  const written = standing.filter((family) => hasWritten(observed, family));
  const hasOld = written.length < standing.length;
  const elsewhere = written.length > 0 ? await unlessKilled(rulesElsewhere) : undefined;
  if (!elsewhere) return { flows: [], hasOld };
  // In mode ipvs its endpoints are those of virtual servers.
  const ipvs = await proxyIpvs(kernel);
  const { old } = flowChange(active, { ...state, ...(ipvs ? { ipvs } : {}) });
  const isHere = (family: Family): boolean => written.includes(family) && !isNew(elsewhere, leftovers, family);
  return { flows: old.filter(({ family }) => isHere(family)), hasOld };
}

/** What an earlier kube-proxy left elsewhere: rules from before the first call of an undo, where none ran. */
async function leftoversOf(
  adoption: Adoption,
  { kubeProxy, rulesElsewhere }: UndoDependencies,
): Promise<RulesElsewhere> {
  if (adoption.goal === 'kube-proxy') return adoption.leftovers ?? {};
  return kubeProxy.running().length > 0 ? {} : rulesElsewhere();
}

/** Whether a family has other rules elsewhere than those that were left; a kube-proxy removes them when it changes its mode. */
const isNew = (elsewhere: RulesElsewhere, leftovers: RulesElsewhere, family: Family): boolean =>
  (elsewhere[family] ?? leftovers[family]) !== leftovers[family];

/** @returns undefined: a tool was killed, and the next look asks again */
async function unlessKilled(read: UndoDependencies['rulesElsewhere']): Promise<RulesElsewhere | undefined> {
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
  parts: UndoDependencies,
): Promise<boolean> {
  const { kernel, clock, kubeProxy, families, waitMs, rulesElsewhere } = parts;
  const end = clock.bootMs() + waitMs;
  const served = families.filter((family) => before?.state.families[family]?.nat.chains.has(servicesChain));
  const isThere = async (): Promise<boolean> => {
    if (kubeProxy.running().length === 0) return false;
    const elsewhere = await unlessKilled(rulesElsewhere);
    if (!elsewhere) return false;
    const observed = await kernel.observe(families);
    const isWritten = (family: Family): boolean => hasWritten(observed, family) || isNew(elsewhere, leftovers, family);
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
