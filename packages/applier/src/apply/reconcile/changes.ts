import type { BundleFiles } from '@sluice/bundle';
import type { ObservedIpvs } from '../../ports/ipvs/values.ts';
import type { VersionedState } from '../../ports/journal.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import { familiesOf, type NodeState } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { Admission, type AdmissionOptions } from '../admission/admission.ts';
import type { AdmittedBundle } from '../admission/admit.ts';
import {
  hasOwnGeneration,
  knowsStartState,
  readStartState,
  refuseForeignTable,
  type StartState,
} from '../admission/start-state.ts';
import { countNames, foreignProxyChains } from '../plan/ownership.ts';
import { type ChangeHints, decideChange } from '../transaction/decide-change.ts';
import type { PlannedChange, TransactionResult } from '../transaction/planned-change.ts';
import type { ProbationRules } from '../transaction/probation.ts';
import { transaction, type TransactionContext } from '../transaction/transaction.ts';

/** The settings of changes in the node's config. */
export interface ChangeOptions extends AdmissionOptions {
  readonly probation: ProbationRules;
}

/** Refusals for rules of another program that serve Services. */
const codesOfEarlierRules: ReadonlySet<string> = new Set([
  'NODE_CHAINS_NOT_OURS',
  'NODE_SERVERS_NOT_OURS',
  'NODE_PARITY_MISSING',
]);

/** The three steps of every change: admit files, decide the change, transact it. They share what is known of the kernel. */
export class Changes {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #options: ChangeOptions;
  readonly #memory: KernelMemory;
  readonly #admission: Admission;

  constructor(ports: Ports, facts: () => NodeFacts, options: ChangeOptions, memory: KernelMemory) {
    this.#ports = ports;
    this.#facts = facts;
    this.#options = options;
    this.#memory = memory;
    this.#admission = new Admission(ports, facts, options);
  }

  /** @see Admission.of */
  async admit(files: BundleFiles, whole = false): Promise<AdmittedBundle | Refusal> {
    return this.#admission.of(files, whole);
  }

  /** @see decideChange */
  async decide(bundle: VersionedState, hints: ChangeHints = {}): Promise<PlannedChange | Refusal> {
    const startState = await this.#startState(bundle);
    const refusal = 'problems' in startState ? startState : await this.refuseTakeOver(bundle.version, startState);
    if (refusal?.problems.some(({ code }) => codesOfEarlierRules.has(code))) this.#memory.sawEarlierRules = true;
    if ('problems' in startState) return startState;
    return refusal ?? decideChange(bundle, startState, this.#ports, hints);
  }

  /** @see refuseTakeOver */
  async refuseTakeOver(version: string, start: Pick<StartState, 'from' | 'observed'>): Promise<Refusal | undefined> {
    const isKnown = (): boolean => this.#memory.sawEarlierRules || this.#facts().kubeProxies().length > 0;
    return refuseTakeOver(version, start, this.#ports, isKnown);
  }

  /** The state before the change: remembered, or read from the kernel. */
  async #startState({ state }: VersionedState): Promise<StartState | Refusal> {
    const { active } = this.#ports.journal;
    const { tables, ipvs } = this.#memory;
    const refusal = await refuseForeignTable(state, this.#ports);
    if (refusal) return refusal;
    if (active && tables && knowsStartState(state, active))
      return { from: active, now: tables, ...(ipvs ? { ipvs } : {}) };
    const reads = this.#admission.takeReads();
    return readStartState(
      state,
      this.#facts(),
      { takeOver: this.#options.takeOver, beneath: this.#options.beneath, reads },
      this.#ports,
    );
  }

  /** @see transaction */
  async transact(change: PlannedChange, context: TransactionContext = {}): Promise<TransactionResult> {
    const ending = await transaction(change, this.#options.probation, this.#ports, context);
    // The rollback of a stale change has made the kernel equal to the journal, which may differ from what was remembered.
    this.#memory.remember(isStale(ending) ? {} : ending);
    if (ending.outcome.kind === 'confirmed') this.#memory.sawEarlierRules = false;
    return ending;
  }

  /** A change that needs no step: the kernel holds its state. */
  rememberTables(state: NodeState): void {
    this.#memory.tables = state;
  }

  /** Transacts an endpoint update; again if the state of the kernel that it was planned from may be out of date. */
  async update(change: PlannedChange, isRetry = false): Promise<TransactionResult> {
    const ending = await this.transact(change, { isRetry });
    const again = isStale(ending) ? await this.decide(change.bundle, { changeKind: change.changeKind }) : undefined;
    return again && !('problems' in again) ? this.update(again, true) : ending;
  }
}

/** Whether a change was rolled back because the state of the kernel that it was planned from may be out of date. */
export function isStale({ outcome, stale }: TransactionResult): boolean {
  return stale === true && outcome.kind === 'rolled-back';
}

/** The state of the kernel when it was last compared, or written and verified. What is undefined must be read. */
export class KernelMemory {
  tables: NodeState | undefined;
  ipvs: ObservedIpvs | undefined;
  /** This process has seen that another program served Services, and has not confirmed a release since. */
  sawEarlierRules = false;

  /** After a transaction: as far as it knows the kernel. */
  remember({ kernelState, ipvs }: Pick<TransactionResult, 'kernelState' | 'ipvs'>): void {
    this.tables = kernelState;
    this.ipvs = ipvs;
  }
}

/**
 * Refuses a take-over without the certificate that the node requires: the first change of a node on which Service rules stand, of kube-proxy
 * in any mode or of another Sluice. A node that has a generation of its own, or no Service rules, takes over nothing. Generation 0 is none of
 * its own: it is active after a first release that was rolled back, and after a rollback to it.
 *
 * Rules that another program has flushed still count where they are known to have stood, or a kube-proxy runs that puts them back: else a
 * flush would open the gate. A node of which nothing is known is as after a boot, and takes over nothing.
 * @param version of the node's rules in the bundle
 * @param isKnown asked on a first change alone, as it reads every process: a kube-proxy runs, or this process has seen rules of another program and confirmed no release since
 */
export async function refuseTakeOver(
  version: string,
  { from, observed }: Pick<StartState, 'from' | 'observed'>,
  { journal, kernel, parity }: Pick<Ports, 'journal' | 'kernel' | 'parity'>,
  isKnown: () => boolean,
): Promise<Refusal | undefined> {
  if (!parity || hasOwnGeneration(journal.active)) return undefined;
  if (isKnown()) return parity.refuse(version);
  const traces = await kernel.proxyTraces();
  const tables = observed ?? (await kernel.observe(familiesOf(from.state)));
  const isBare = !traces.ipvs && !traces.nftables && countNames(foreignProxyChains(tables, {})) === 0;
  return !isBare || (await parity.servesElsewhere()) ? parity.refuse(version) : undefined;
}
