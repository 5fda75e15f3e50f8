import type { Family, IpvsTimeouts, Problem, SysctlKey, TableName } from '@sluice/netfilter';
import type { Machine } from '@sluice/bundle';
import type { Drain, IpvsStep } from '../ipvs/values.ts';
import type { IpvsKernel } from '../ipvs/ports.ts';
import type { Rehearsal } from './rehearsal.ts';
import type { NodeState, Observed } from './state.ts';

/**
 * One atomic change of the kernel: a table of one family, a sysctl, the hash size. Batches of mode ipvs are the exception: the kernel
 * takes them line by line.
 */
export type Step =
  | {
      readonly kind: 'restore-table';
      readonly family: Family;
      readonly table: TableName;
      /** From `*table` to `COMMIT`, for `iptables-restore --noflush`. */
      readonly text: string;
      readonly because: string;
      /** A pause before the step, for packets in flight. */
      readonly pauseMs?: number;
    }
  | { readonly kind: 'set-sysctl'; readonly key: SysctlKey; readonly value: number; readonly because: string }
  | { readonly kind: 'raise-hashsize'; readonly value: number; readonly because: string }
  | IpvsStep;

/** The kernel. kernel/linux.ts and kernel/fake.ts pass the same contract suite. */
export interface Kernel {
  /** True if one payload must not create many chains (`limits.chainsPerPayloadMax`). */
  readonly slowWithManyChains: boolean;
  /** Sets, virtual servers and addresses; undefined if the tools for them are missing. */
  readonly ipvs?: IpvsKernel | undefined;
  /**
   * Reads both tables of these families, with foreign rules.
   * @param known the expected state: a chain with these rules is returned as the same object, which saves memory and allows comparison by
   *   identity
   * @param interrupt aborts the call
   * @throws Interrupted then, and only then
   */
  observe(families: readonly Family[], known?: Pick<NodeState, 'families'>, interrupt?: AbortSignal): Promise<Observed>;
  /** The rules of some chains as the kernel prints them. A chain that does not exist is left out. */
  observeChains(
    family: Family,
    table: TableName,
    chains: readonly string[],
  ): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Applies the whole step, or throws a `KernelError` and applies nothing of it. */
  apply(step: Step): Promise<void>;
  /**
   * Loads rules in a scratch namespace, where no packet meets them.
   * @throws KernelError if the kernel does not take them
   * @throws RehearsalError if they could not be loaded for another reason, which is no verdict on the rules
   */
  rehearse(state: NodeState): Promise<void>;
  /** The present value; undefined if this kernel has no such key. */
  readSysctl(key: SysctlKey): Promise<number | undefined>;
  /** The size of the conntrack hash table; undefined if it cannot be read or raised here, so that no step is planned for it. */
  readHashSize(): Promise<number | undefined>;
  /** Whether the kernel has `-m bpf`: without it, layout `tree` has a chain for each endpoint. */
  readonly knowsBpf: boolean;
  /** Chooses between two programs of layout `tree`; undefined without ipset: then there is no dead-man switch. */
  readonly switch?: Switch | undefined;
  /** Whether there are traces of a kube-proxy in another mode than iptables: its interface, or its table in nftables. */
  proxyTraces(): Promise<{ readonly ipvs: boolean; readonly nftables: boolean }>;
  /**
   * Deletes the conntrack entries of stale flows. Best effort; called after the change, never before.
   * @param found called with the number of entries, before they are deleted
   * @returns the number of entries
   */
  forgetFlows(flows: readonly TrackedFlow[], found?: (connections: number) => void): Promise<number>;
}

/** Whether packets meet the new program: no; yes, until a time-out; yes, without a time-out. */
export type SwitchState = 'off' | 'on' | 'pinned';

/**
 * The switch between a confirmed program and one in probation: the sets `SLUICE-N`, which nat matches, and `SLUICE-F`, which filter
 * matches. They exist only while a transaction is open. Their entries time out, which makes them the dead-man switch.
 */
export interface Switch {
  /** undefined if the sets do not exist. */
  look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined>;
  /**
   * Creates the sets, off. Existing sets stay as they are.
   * @param sources networks whose packets meet the new program; none: all packets of both families
   * @param withOwn also packets of this node
   */
  make(sources: readonly string[], withOwn?: boolean): Promise<void>;
  /**
   * Turns both sets on for both families, filter's first, in one operation: between two operations the process could be stopped for so
   * long that it turns nat's set on when filter's has timed out.
   * @param seconds the time-out of nat's set; that of filter's is `limits.deadmanFilterSeconds` longer; 0: none
   */
  on(seconds: number): Promise<void>;
  /** Turns a table's set off. Needs no lock of a table. Does nothing without sets. */
  off(table: TableName): Promise<void>;
  /** Removes the sets, off or on. No rule may name them. */
  remove(): Promise<void>;
}

/** Connections from a frontend to the endpoint that nat chose. */
export interface TrackedFlow {
  readonly family: Family;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  /** undefined: any address of the node, through a node port. */
  readonly address: string | undefined;
  readonly port: number;
  /** `10.244.1.5:8080`; undefined: connections that no nat rule translated. */
  readonly endpoint: string | undefined;
}

/** The kernel, or one of its tools, refused or failed. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
  /** The command, such as `iptables-restore nat`. */
  readonly action: string;

  constructor(action: string, why: string) {
    super(`Cannot run ${action}: ${why}`);
    this.action = action;
  }
}

/** A rehearsal could not be started or finished. It is no verdict on the rules. */
export class RehearsalError extends Error {
  override readonly name = 'RehearsalError';
  readonly hint: string;

  constructor(why: string, hint: string) {
    super(`Cannot rehearse: ${why}`);
    this.hint = hint;
  }
}

/** A numbered desired state that was accepted. An endpoint update is a further revision of its generation. */
export interface Generation {
  readonly number: number;
  readonly revision: number;
  readonly version: string;
  readonly state: NodeState;
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
  readonly flows: FlowDifference;
}

/** A generation that was found in the store, without the journal. */
export interface StoredGeneration {
  readonly generation: Generation;
  /** It was the active one according to the node's files. Of the others that is not known. */
  readonly wasActive: boolean;
}

export type GenerationId = Pick<Generation, 'number' | 'revision'>;

/** Why a transaction was rolled back: the bundle failed, the process crashed or could not continue, or it was asked to end. */
export type Fault = 'bundle' | 'process' | 'asked';

/** The state that outlives the process. journal/ implements it on disk; each call is durable when it returns. */
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
  /** The end of the back-off after several failed releases, in milliseconds since 1970; 0: none. */
  readonly notBeforeMs: number;
  /** The number of releases that were tried since a time, in milliseconds since 1970, with any outcome. */
  releasesSince(sinceMs: number): number;
  /** A generation that is still stored and undamaged. Without a revision: its newest. */
  generation(number: number, revision?: number): Promise<Generation | undefined>;
  /** The flows that the open transaction changes. */
  openFlows(): Promise<FlowDifference>;
  /** Stores the state before Sluice as generation 0. */
  adopt(state: NodeState): Promise<Generation>;
  /** Starts a new journal with the state of the kernel, for a node that lost its state directory. */
  recognised(state: NodeState, because: string): Promise<Generation>;
  begin(opening: TransactionIntent): Promise<void>;
  /** Writes newer endpoints for both programs of a release in probation, before their first step. */
  offer(update: EndpointUpdate): Promise<void>;
  /**
   * The kernel holds the offered endpoints: both generations get a further revision, and that of the older one is active.
   * @returns the active generation, which a rollback returns to
   */
  accept(): Promise<Generation>;
  /**
   * Writes the commit record: from here on the new generation is active. The only decision of a transaction.
   * @param note for the history
   */
  commit(note?: string): Promise<void>;
  /** Closes a committed transaction after its last step. */
  finish(): Promise<Generation>;
  /** Deferred work: updates the readable text of the active generation. Called now and then. */
  tidy(): Promise<void>;
  /**
   * Closes an open transaction after its rollback: generation `from` is active.
   * @param fault `bundle`: its version is quarantined; `process`: its version may be retried a few times; `asked`: its version may be
   *   retried without limit
   */
  abandon(because: string, fault: Fault): Promise<void>;
  /** Counts one more process that tries to recover the open transaction. @returns their number, with this one */
  countRecovery(): Promise<number>;
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
  /** Records that Sluice was removed from the kernel; the history stays. */
  forget(): Promise<void>;
}

/** One answer of one probe. */
export interface ProbeResult {
  readonly name: string;
  readonly healthy: boolean;
  /** The answer in words, for the log and the reason of a rollback. */
  readonly seen: string;
}

/** The probes of the node. probe/probes.ts implements it. */
export interface Probes {
  readonly policies: readonly ProbePolicy[];
  /** The time between two rounds. */
  readonly intervalMs: number;
  /** Runs every probe once, in parallel. */
  once(): Promise<readonly ProbeResult[]>;
  /** Runs every probe as often as its policy needs for a verdict, in parallel. */
  untilVerdict(): Promise<readonly ProbeResult[]>;
}

/** When a probe counts as failed: `failures` of its last `window` answers were bad. */
export interface ProbePolicy {
  readonly name: string;
  readonly failures: number;
  readonly window: number;
}

export interface Clock {
  /** Milliseconds since 1970, for what outlives the process. */
  now(): number;
  sleep(ms: number): Promise<void>;
  /** CLOCK_BOOTTIME: includes suspend, and cannot be set. */
  bootMs(): number;
}

/** A decision of the operator during probation: `sluiced confirm`, `cancel`, `extend`. */
export type Decision =
  | { readonly kind: 'confirm' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'extend'; readonly seconds: number };

export interface Operator {
  /** The next decision that was not returned yet. */
  ask(): Promise<Decision | undefined>;
  /** Drops all decisions so far: a new probation begins, which they cannot be about. */
  forget(): void;
}

/**
 * Sets of endpoints that made a probe fail, by Service (`EndpointChange.key`). Early endpoint sync leaves them out, so that they go in
 * only with a release in probation. They outlive the process.
 */
export interface DeclinedEndpoints {
  read(): ReadonlyMap<string, string>;
  /** @throws StateError if the disk does not take it; this process remembers it nevertheless */
  write(declined: ReadonlyMap<string, string>): void;
}

/** The networks of pods and the addresses of the Nodes of the last confirmed release. They outlive the process. */
export interface ReleasedNetworks {
  read(): readonly string[];
  /** @throws StateError if the disk does not take it; this process remembers them nevertheless */
  write(networks: readonly string[]): void;
}

/** Runs the probes around endpoint updates. Nothing waits for the verdict. */
export interface UpdateWatch {
  /** The probes that pass before an update; a slow one is left out. */
  before(): Promise<readonly string[]>;
  /** @param good the result of `before` @param changes Services and endpoints in words; called only if a probe fails */
  after(good: readonly string[], changes: () => string): void;
}

/** Takes events of a transaction, for logs, metrics and alarms; has no influence on the outcome. */
export type Report = (event: string, details: Readonly<Record<string, unknown>>) => void;

export interface Ports {
  readonly kernel: Kernel;
  readonly rehearsal: Rehearsal;
  readonly journal: Journal;
  readonly probes: Probes;
  readonly declined: DeclinedEndpoints;
  /** The bounds of keys for endpoints, if signatures are required. */
  readonly networks?: ReleasedNetworks;
  /** Left out: endpoint updates are not watched. */
  readonly updates?: UpdateWatch;
  readonly clock: Clock;
  readonly operator: Operator;
  readonly report: Report;
  /** How long a real server may drain. */
  readonly drainMs: number;
}

/** Facts about the node that admission needs. kernel/facts.ts reads them. */
export interface NodeFacts extends Machine {
  /** Per family with tools: the version of iptables, such as `1.8.9`. */
  readonly tools: { readonly [F in Family]?: string };
  /** Tools of mode ipvs that the node lacks. */
  readonly ipvsToolsMissing: readonly string[];
  /** Process ids of running kube-proxies. */
  kubeProxies(): readonly number[];
  /** True when the sysctl has this value or can be given it. */
  sysctlTakes(key: SysctlKey, value: number): boolean;
}

/** Why a bundle was refused. Nothing was touched. */
export interface Refusal {
  readonly problems: readonly Problem[];
}
