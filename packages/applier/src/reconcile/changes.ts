import type { BundleFiles } from '@sluice/bundle';
import { Admission, type AdmissionOptions } from '../admission/admission.ts';
import type { AdmittedBundle } from '../admission/admit.ts';
import { knowsStartState, readStartState, refuseForeignTable, type StartState } from '../admission/start-state.ts';
import { refuseTakeOver } from '../admission/take-over.ts';
import type { VersionedState } from '../ports/journal.ts';
import type { NodeFacts } from '../ports/node-facts.ts';
import type { NodeState } from '../ports/node-state.ts';
import type { Ports } from '../ports/ports.ts';
import type { Refusal } from '../ports/refusal.ts';
import { type ChangeHints, decideChange } from '../transaction/decide-change.ts';
import type { ProbationRules } from '../transaction/probation.ts';
import type { PlannedChange, TransactionResult } from '../transaction/planned-change.ts';
import { transaction, type TransactionContext } from '../transaction/transaction.ts';
import type { ObservedIpvs } from '../ipvs/values.ts';

/** The settings of changes in the node's config. */
export interface ChangeOptions extends AdmissionOptions {
  readonly probation: ProbationRules;
}

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
    if ('problems' in startState) return startState;
    const refusal = await refuseTakeOver(bundle.version, startState, this.#ports);
    return refusal ?? decideChange(bundle, startState, this.#ports, hints);
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
    return ending;
  }

  /** A change that needs no step: the kernel holds its state. */
  rememberTables(state: NodeState): void {
    this.#memory.tables = state;
  }

  /** Transacts an endpoint update; again if the remembered state of the kernel was out of date. */
  async update(change: PlannedChange): Promise<TransactionResult> {
    const ending = await this.transact(change);
    const again = isStale(ending) ? await this.decide(change.bundle, { changeKind: change.changeKind }) : undefined;
    return again && !('problems' in again) ? this.update(again) : ending;
  }
}

/** Whether a change was rolled back because the remembered state of the kernel was out of date. */
export function isStale({ outcome, stale }: TransactionResult): boolean {
  return stale === true && outcome.kind === 'rolled-back';
}

/** The state of the kernel when it was last compared, or written and verified. What is undefined must be read. */
export class KernelMemory {
  tables: NodeState | undefined;
  ipvs: ObservedIpvs | undefined;

  /** After a transaction: as far as it knows the kernel. */
  remember({ kernelState, ipvs }: Pick<TransactionResult, 'kernelState' | 'ipvs'>): void {
    this.tables = kernelState;
    this.ipvs = ipvs;
  }
}
