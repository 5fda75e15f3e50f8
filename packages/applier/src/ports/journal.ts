import type { Drain } from './ipvs/values.ts';
import type { Adoption } from './adoption.ts';
import type { TrackedFlow } from './kernel.ts';
import type { NodeState } from './node-state.ts';
import type { IpvsTimeouts, SysctlKey } from '@sluice/netfilter';

/** A version and its rules: those of an admitted bundle, or an admitted state with the endpoints of another bundle. */
export interface VersionedState {
  readonly version: string;
  readonly state: NodeState;
  /** Left out: it is all of a bundle. */
  readonly partial?: PartialRelease | undefined;
}

/** What a partial generation is: a release without some Services, which stay as they were. It has a version of its own. */
export interface PartialRelease {
  /** The version of the whole release. */
  readonly of: string;
  /** The Services that were left out, `shop/cart`, sorted. */
  readonly services: readonly string[];
  readonly because: string;
}

/** A version of a Service that is not tried again by itself. */
export interface QuarantinedService {
  readonly service: string;
  /** One of `versionsOf`. */
  readonly version: string;
  readonly because: string;
}

/** A numbered desired state that was accepted. An endpoint update is a further revision of its generation. */
export interface Generation extends VersionedState {
  readonly number: number;
  readonly revision: number;
}

/** A release has a probation before it is confirmed; an endpoint update is confirmed at once. */
export type ChangeKind = 'release' | 'endpoints';

/**
 * How packets come from the old program to the new one: by the switch, which has a time-out, or by changing the tables in an order in
 * which every intermediate state serves traffic.
 */
export type Flip = 'switch' | 'ordered';

/** The intent of a transaction, durable before its first step. With the active generation it is all that a rollback needs. */
export interface TransactionIntent {
  readonly changeKind: ChangeKind;
  readonly flip: Flip;
  readonly version: string;
  readonly state: NodeState;
  readonly partial?: PartialRelease | undefined;
  /** The previous values of sysctls that the active generation does not set. */
  readonly sysctls: ReadonlyMap<SysctlKey, number>;
  /** The previous time-outs of IPVS, if the state sets other ones. */
  readonly timeouts?: IpvsTimeouts;
  /** Flows that only one of the two programs has. */
  readonly flows: FlowDifference;
}

/** Flows that only the old program has, and flows that only the new one has. */
export interface FlowDifference {
  readonly old: readonly TrackedFlow[];
  readonly fresh: readonly TrackedFlow[];
}

/** A transaction that is neither finished nor rolled back. */
export interface OpenTransaction {
  /** `committed`: the commit record is on the disk, and the new program is the confirmed one. */
  readonly phase: 'open' | 'committed';
  readonly changeKind: ChangeKind;
  readonly flip: Flip;
  readonly version: string;
  /** The generation to roll back to, and the new one. */
  readonly from: GenerationId;
  readonly to: GenerationId;
  readonly sysctls: ReadonlyMap<SysctlKey, number>;
  /** Both with newer endpoints that are being put into the kernel: it may hold chains of these, too. */
  readonly update?: { readonly from: GenerationId; readonly to: GenerationId } | undefined;
}

/** Both programs of an open transaction with newer endpoints. */
export interface EndpointUpdate {
  /** The state to roll back to. */
  readonly from: NodeState;
  readonly to: NodeState;
  /** The version of `to`. */
  readonly version: string;
  /** Of `to`. */
  readonly partial?: PartialRelease | undefined;
  readonly flows: FlowDifference;
}

/** A generation that was found in the store, without the journal. */
export interface StoredGeneration {
  readonly generation: Generation;
  /** It was the active one according to the node's files. Of the others that is not known. */
  readonly wasActive: boolean;
}

type GenerationId = Pick<Generation, 'number' | 'revision'>;

/**
 * Why a transaction was rolled back: the bundle failed; what surrounds it did, such as a tool; the process crashed or could not continue; or it
 * was asked to end.
 */
export type Fault = 'bundle' | 'surroundings' | 'process' | 'asked';

/** The state that outlives the process. state/journal.ts implements it on disk; each call is durable when it returns. */
export interface Journal {
  /** The last confirmed generation, which a boot loads; undefined before the first. */
  readonly active: Generation | undefined;
  /** The transaction in progress, of this process or of one that crashed. */
  readonly open: OpenTransaction | undefined;
  /** Why the node is halted; undefined: it is not. */
  readonly halted: string | undefined;
  /** The active generation, if it cannot be read; the node is halted then. */
  readonly damaged: { readonly number: number; readonly because: string } | undefined;
  /** Why the journal, though it was written, cannot be read at all; the node is halted then, and the journal is not overwritten. */
  readonly lost: string | undefined;
  /** The generations in the store of a node whose journal is lost: the last active one first. */
  storedGenerations(): Iterable<StoredGeneration>;
  /** Replaces a lost journal: this generation is active, and all other records are lost. */
  rescue(target: Generation, because: string): Promise<void>;
  /** Why this version is quarantined at present; undefined: it is not. */
  quarantined(version: string): string | undefined;
  /** The oldest first. */
  readonly quarantinedServices: readonly QuarantinedService[];
  /** The end of the back-off after several failed releases, in milliseconds since 1970; 0: none. */
  readonly notBeforeMs: number;
  /** The number of releases that were to blame for their rollback since a time, in milliseconds since 1970. */
  failuresSince(sinceMs: number): number;
  /** A generation that is still stored and undamaged. Without a revision: its newest. */
  generation(number: number, revision?: number): Promise<Generation | undefined>;
  /** The flows that the open transaction changes. */
  openFlows(): Promise<FlowDifference>;
  /** Stores the state before Sluice as generation 0. */
  adopt(state: NodeState): Promise<Generation>;
  /** Starts a new journal with the state of the kernel, for a node that lost its state directory. */
  recognised(state: NodeState, because: string): Promise<Generation>;
  /** Readable for the next process when it returns; durable too, except of an endpoint update, which is durable before its commit. */
  begin(opening: TransactionIntent): Promise<void>;
  /**
   * Writes newer endpoints for both programs of an open transaction, before their first step. Where that is an endpoint update, both are
   * revisions of one generation, and the older one gets the next number after both.
   */
  offer(update: EndpointUpdate): Promise<void>;
  /**
   * The kernel holds the offered endpoints: both generations get a further revision, and that of the older one is active.
   * @returns the active generation, which a rollback returns to
   */
  accept(): Promise<Generation>;
  /**
   * Writes the commit record: from here on the new generation is active. The only decision of a transaction.
   * @param note for the history
   * @param services the quarantined Services from now on; left out: as before
   */
  commit(note?: string, services?: readonly QuarantinedService[]): Promise<void>;
  /**
   * Lifts the quarantine of a version of a bundle, or of all versions of a Service.
   * @returns whether there was one
   */
  lift(quarantined: string): Promise<boolean>;
  /** Closes a committed transaction after its last step; the node is not halted any more. */
  finish(): Promise<Generation>;
  /** Deferred work: updates the readable text of the active generation. Called now and then. */
  tidy(): Promise<void>;
  /**
   * Closes an open transaction after its rollback: generation `from` is active, and the node is not halted any more.
   * @param fault `bundle`: its version is quarantined; `process`: its version may be retried a few times; `surroundings`, `asked`:
   *   its version may be retried without limit
   */
  abandon(because: string, fault: Fault): Promise<void>;
  /** Counts one more process that tries to recover the open transaction. @returns their number, with this one */
  countRecovery(): Promise<number>;
  /** This process has not crashed while it tried to recover: earlier ones do not count any more. */
  outlived(): Promise<void>;
  /** Halts the node; the transaction stays open. */
  halt(because: string): Promise<void>;
  /** A manual rollback: this generation is active, and nothing is open or halted; the versions that are left are quarantined. */
  choose(target: Generation): Promise<Generation>;
  /**
   * The same in memory alone, for a disk that takes no write: this process must not repair the kernel back to the generation on the disk.
   * The next successful write contains it.
   * @param stored the target as the store has it
   * @throws StateError if the store does not have it
   */
  chooseUnwritten(target: Generation, stored: Generation): void;
  /** Replaces an active generation that cannot be read by an older one; nothing is open or halted then. */
  fallBack(target: Generation, because: string): Promise<void>;
  /** Real servers of mode ipvs that drain; durable, so that the next process removes them. */
  readonly draining: readonly Drain[];
  keepDraining(draining: readonly Drain[]): Promise<void>;
  /** The values that sysctls had before Sluice first set them. */
  readonly originals: ReadonlyMap<SysctlKey, number>;
  /** The time-outs that IPVS had before Sluice first set them. */
  readonly originalTimeouts: IpvsTimeouts | undefined;
  /** The move from kube-proxy, finished or not; undefined: there was none. */
  readonly adoption: Adoption | undefined;
  keepAdoption(adoption: Adoption): Promise<void>;
  /** Stores the rules of the kube-proxy that Sluice replaces in generation 0, before the first of them is removed. */
  keepReplaced(state: NodeState): Promise<void>;
  /** Records that Sluice was removed from the kernel; the history stays. */
  forget(): Promise<void>;
}
