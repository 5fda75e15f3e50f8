import type { Family, IpvsTimeouts, Machine, Problem, SysctlKey, TableName } from '@sluice/bundle';
import type { Drain, IpvsStep } from '../ipvs/values.ts';
import type { IpvsKernel } from '../ipvs/ports.ts';
import type { Rehearsal } from './rehearsal.ts';
import type { NodeState, Observed } from './state.ts';

/**
 * One thing that the kernel takes in one bite: a table of one family, a sysctl, the hash size; and batches of mode ipvs, which
 * it takes line by line.
 */
export type Step =
  | {
      readonly kind: 'restore-table';
      readonly family: Family;
      readonly table: TableName;
      /** From `*table` to `COMMIT`, for `iptables-restore --noflush`. */
      readonly text: string;
      readonly because: string;
      /** How long to wait before the step, so that packets on their way are through. */
      readonly pauseMs?: number;
    }
  | { readonly kind: 'set-sysctl'; readonly key: SysctlKey; readonly value: number; readonly because: string }
  | { readonly kind: 'raise-hashsize'; readonly value: number; readonly because: string }
  | IpvsStep;

/** What the transaction needs of the kernel. kernel/linux.ts and kernel/fake.ts pass the same contract suite. */
export interface Kernel {
  /** True where one payload must not create many chains (`limits.chainsPerPayloadMax`). */
  readonly slowWithManyChains: boolean;
  /** Sets, virtual servers and addresses; absent where the tools for them are missing. */
  readonly ipvs?: IpvsKernel | undefined;
  /**
   * Both tables of these families, whoever made what is in them.
   * @param known what they are thought to hold: a chain that has these rules is told with the same value, so that what was expected
   *   is held once and compared by identity
   * @param interrupt ends the look when it aborts
   * @throws Interrupted then, and only then
   */
  observe(families: readonly Family[], known?: Pick<NodeState, 'families'>, interrupt?: AbortSignal): Promise<Observed>;
  /** The rules of some chains as the kernel prints them. A chain that is not there is absent. */
  observeChains(
    family: Family,
    table: TableName,
    chains: readonly string[],
  ): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Takes the step whole or throws a `KernelError` and takes nothing of it. */
  apply(step: Step): Promise<void>;
  /**
   * Loads rules for real where no packet meets them.
   * @throws KernelError when the kernel does not take them
   * @throws RehearsalError when it could not be asked: that says nothing of the rules
   */
  rehearse(state: NodeState): Promise<void>;
  /** The value now; undefined when this kernel has no such key. */
  readSysctl(key: SysctlKey): Promise<number | undefined>;
  /** The size of the conntrack hash table; undefined when it cannot be read or raised here, and then nothing is planned for it. */
  readHashSize(): Promise<number | undefined>;
  /** Whether rules may ask for a packet's own bytes: without, layout `tree` has a chain for each endpoint. */
  readonly knowsBpf: boolean;
  /** Chooses between two programs of layout `tree`; undefined where the node has no ipset, and then nothing falls back by itself. */
  readonly switch?: Switch | undefined;
  /** What a kube-proxy in another mode than iptables left: its interface, or its table in nftables. */
  proxyTraces(): Promise<{ readonly ipvs: boolean; readonly nftables: boolean }>;
  /**
   * Forgets connections that would go on as before whatever the rules say. Best effort, after the change and never before.
   * @returns how many there were
   */
  forgetFlows(flows: readonly Flow[], found?: (connections: number) => void): Promise<number>;
}

/** What a set of the switch holds: nothing, everything for a time, everything for good. */
export type SwitchState = 'off' | 'on' | 'pinned';

/**
 * The switch between a confirmed program and one on trial: the sets `SLUICE-N`, which nat asks, and `SLUICE-F`, which filter asks.
 * They are there only while a transaction is open. Entries that time out are the dead-man: the kernel goes back by itself.
 */
export interface Switch {
  /** undefined when the sets are not there. */
  look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined>;
  /**
   * Makes the sets, off. Sets that are there stay as they are.
   * @param sources networks whose packets take part in the trial; none: all packets of both families
   * @param withOwn also what this machine sends
   */
  make(sources: readonly string[], withOwn?: boolean): Promise<void>;
  /**
   * Turns both sets on for both families, filter's first, in one operation: a process that is stopped between two would turn nat's on
   * when filter's has gone off by itself.
   * @param seconds until nat's goes off by itself, and `limits.deadmanFilterSeconds` later filter's; 0: never
   */
  on(seconds: number): Promise<void>;
  /** Turns a table's set off. Needs no lock of any table. Nothing to do when there is no set. */
  off(table: TableName): Promise<void>;
  /** Removes the sets, off or on. No rule may name them any more. */
  remove(): Promise<void>;
}

/** Connections of one way through a Service: what was asked for, and the endpoint that nat chose. */
export interface Flow {
  readonly family: Family;
  readonly protocol: 'tcp' | 'udp' | 'sctp';
  /** undefined: any address of the node, through a node port. */
  readonly address: string | undefined;
  readonly port: number;
  /** `10.244.1.5:8080`; undefined: connections that no nat rule translated. */
  readonly endpoint: string | undefined;
}

/** Why the kernel, or the tool in front of it, did not do what it was asked. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
  /** What was asked, such as `iptables-restore nat`. */
  readonly action: string;

  constructor(action: string, why: string) {
    super(`Cannot run ${action}: ${why}`);
    this.action = action;
  }
}

/** Why a rehearsal could not be held, or not to its end. Rules that were not rehearsed are neither good nor bad. */
export class RehearsalError extends Error {
  override readonly name = 'RehearsalError';
  /** What to do about it. */
  readonly hint: string;

  constructor(why: string, hint: string) {
    super(`Cannot rehearse: ${why}`);
    this.hint = hint;
  }
}

/** What one generation put into the kernel. An endpoint update is a further revision of its generation. */
export interface Generation {
  readonly number: number;
  readonly revision: number;
  readonly version: string;
  readonly state: NodeState;
}

/** A release is tried before it is confirmed; an update of endpoints is confirmed at once. */
export type ChangeKind = 'release' | 'endpoints';

/**
 * How packets come from the old program to the new one: by the switch, which goes back by itself, or by changing the tables in an
 * order in which every state in between serves traffic.
 */
export type Flip = 'switch' | 'ordered';

/** What a transaction is to do, durable before its first step. Together with generation `from` it is the way back. */
export interface Opening {
  readonly changeKind: ChangeKind;
  readonly flip: Flip;
  readonly version: string;
  readonly state: NodeState;
  /** The values that sysctls had before, of those that the standing generation does not set. */
  readonly sysctls: ReadonlyMap<SysctlKey, number>;
  /** The time-outs that IPVS had before, where the state sets others. */
  readonly timeouts?: IpvsTimeouts;
  /** Flows that only one of the two programs has. */
  readonly flows: FlowChange;
}

/** Flows that only the old program has, and flows that only the new one has. */
export interface FlowChange {
  readonly old: readonly Flow[];
  readonly fresh: readonly Flow[];
}

/** A transaction that is neither settled nor taken back. */
export interface OpenTransaction {
  /** `committed`: the token is on the disk, the new program is the one that counts. */
  readonly phase: 'open' | 'committed';
  readonly changeKind: ChangeKind;
  readonly flip: Flip;
  readonly version: string;
  /** The number and revision of the generation to go back to, and of the one to come. */
  readonly from: GenerationId;
  readonly to: GenerationId;
  readonly sysctls: ReadonlyMap<SysctlKey, number>;
  /** Both with newer endpoints, on their way into the kernel: it may hold chains of these, too. */
  readonly update?: { readonly from: GenerationId; readonly to: GenerationId } | undefined;
}

/** Both programs of an open transaction with newer endpoints. */
export interface EndpointUpdate {
  /** What the way back leads to. */
  readonly from: NodeState;
  readonly to: NodeState;
  /** The version that `to` is. */
  readonly version: string;
  readonly flows: FlowChange;
}

/** A generation that was found without the journal. */
export interface Remains {
  readonly generation: Generation;
  /** The node wrote down that it stood, after it was confirmed. Of the others that is not known. */
  readonly stoodLast: boolean;
}

export type GenerationId = Pick<Generation, 'number' | 'revision'>;

/** Why a transaction was taken back: the bundle failed, the process ended or could not go on, or it was asked to end. */
export type Fault = 'bundle' | 'process' | 'asked';

/** The memory that outlives the process. journal/ implements it on disk; each call is durable when it returns. */
export interface Journal {
  /** What the node boots: the last confirmed generation; undefined before the first. */
  readonly active: Generation | undefined;
  /** The transaction in progress, or the one that was open when the process before this one ended. */
  readonly open: OpenTransaction | undefined;
  /** Why a person must look; undefined on most days. */
  readonly halted: string | undefined;
  /** The generation that should stand, where it cannot be read; the node is held then. */
  readonly damaged: { readonly number: number; readonly because: string } | undefined;
  /** Why nothing of the journal can be read, though it was written; the node is held then, and the journal stays as it is. */
  readonly lost: string | undefined;
  /** What the store still holds of a node whose journal is lost, one after the other: the one that stood last comes first. */
  remains(): Iterable<Remains>;
  /** Of a lost journal: this generation stands, and nothing else is known any more. */
  rescue(target: Generation, because: string): Promise<void>;
  /** Why this version must not be applied again by itself, now. */
  quarantined(version: string): string | undefined;
  /** When a release may be tried by itself again, after some failed in a row; milliseconds since 1970, 0 on most days. */
  readonly notBeforeMs: number;
  /** How many releases were tried since a time, in milliseconds since 1970, whatever became of them. */
  releasesSince(sinceMs: number): number;
  /** A generation that is still kept, undamaged. Without a revision: its newest. */
  generation(number: number, revision?: number): Promise<Generation | undefined>;
  /** The flows that the open transaction changes. */
  openFlows(): Promise<FlowChange>;
  /** Stores what stood before Sluice as generation 0. */
  adopt(state: NodeState): Promise<Generation>;
  /** Begins anew with what the kernel holds, for a node that lost what it knew. */
  recognised(state: NodeState, because: string): Promise<Generation>;
  begin(opening: Opening): Promise<void>;
  /** Endpoints that come while a release is on trial are to go into both programs: written before the first step. */
  offer(update: EndpointUpdate): Promise<void>;
  /**
   * The kernel holds what was offered: both generations have a further revision, and the older of them is what the node boots.
   * @returns the one to go back to
   */
  accept(): Promise<Generation>;
  /**
   * The commit token: from here on the new generation is what the node boots. The only decision of a transaction.
   * @param note what the history says with it
   */
  commit(note?: string): Promise<void>;
  /** Closes a committed transaction: nothing is left to do for it. */
  finish(): Promise<Generation>;
  /** Does what may wait: the text for people says what stands. Called now and then. */
  tidy(): Promise<void>;
  /**
   * Closes an open transaction: generation `from` stands again.
   * @param fault of the bundle: it failed, its version is quarantined; of the process: it ended by itself, the version may be tried
   *   again, though not for ever; asked: somebody ended the process, which says nothing however often it happens
   */
  abandon(because: string, fault: Fault): Promise<void>;
  /** Counts one more process that tries to finish the open transaction. Returns how many there were, this one included. */
  countRecovery(): Promise<number>;
  /** Says that a person must look; the transaction stays open. */
  halt(because: string): Promise<void>;
  /** A person's decision: this generation stands, whatever was open or held; the versions that are left are quarantined. */
  choose(target: Generation): Promise<Generation>;
  /**
   * The same where the disk does not take it, for this process alone: it must not put back what the operator left. The next write that
   * the disk takes says so.
   * @param stored the target as the store has it
   * @throws StateError where the store does not have it
   */
  chooseUnwritten(target: Generation, stored: Generation): void;
  /** The generation that stands cannot be read: an older one stands in its place, and nothing is held or open. */
  fallBack(target: Generation, because: string): Promise<void>;
  /** Real servers of mode ipvs that are on their way out; kept, so that the next process goes on with them. */
  readonly draining: readonly Drain[];
  keepDraining(draining: readonly Drain[]): Promise<void>;
  /** The values that sysctls had before Sluice first set them. */
  readonly originals: ReadonlyMap<SysctlKey, number>;
  /** The time-outs that IPVS had before Sluice first set them. */
  readonly originalTimeouts: IpvsTimeouts | undefined;
  /** Nothing of Sluice is in the kernel any more; the history stays. */
  forget(): Promise<void>;
}

/** One answer of one probe. */
export interface ProbeResult {
  readonly name: string;
  readonly healthy: boolean;
  /** What was seen, for the log and the reason of a way back. */
  readonly seen: string;
}

/** The node's health checks. probe/probes.ts implements it. */
export interface Probes {
  readonly policies: readonly ProbePolicy[];
  /** The time from one round to the next. */
  readonly intervalMs: number;
  /** Every probe once, side by side. */
  once(): Promise<readonly ProbeResult[]>;
  /** Every probe as often as its rule needs for a verdict, side by side: the state before a change. */
  patiently(): Promise<readonly ProbeResult[]>;
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
  /** CLOCK_BOOTTIME: it goes on while the machine sleeps, and nobody sets it. */
  bootMs(): number;
}

/** What a person says to a trial: `sluiced confirm`, `cancel`, `extend`. */
export type Decision =
  | { readonly kind: 'confirm' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'extend'; readonly seconds: number };

export interface Person {
  /** What was said since the last question; each word is heard once. */
  ask(): Promise<Decision | undefined>;
  /** Something begins that nothing said so far can be about. */
  forget(): void;
}

/**
 * Sets of endpoints that turned a good probe bad, by Service (`EndpointChange.key`). Early endpoint sync leaves them out, so that they
 * come in with a release that is watched, or not at all. They outlive the process.
 */
export interface DeclinedEndpoints {
  read(): ReadonlyMap<string, string>;
  /** @throws StateError when the disk does not take it; this process remembers it all the same */
  write(declined: ReadonlyMap<string, string>): void;
}

/** The networks of pods and the addresses of the Nodes of the release that was confirmed last. They outlive the process. */
export interface ReleasedNetworks {
  read(): readonly string[];
  /** @throws StateError when the disk does not take it; this process remembers them all the same */
  write(networks: readonly string[]): void;
}

/** Watches what updates of endpoints do to probes. Nothing waits for its verdict. */
export interface UpdateWatch {
  /** The probes that pass before an update; soon, so that a slow one is not among them. */
  before(): Promise<readonly string[]>;
  /** @param good what `before` said @param changes Services and endpoints, for people; asked only where a probe fails */
  after(good: readonly string[], changes: () => string): void;
}

/** What the transaction says on its way; never needed for its outcome. */
export type Report = (event: string, details: Readonly<Record<string, unknown>>) => void;

export interface Ports {
  readonly kernel: Kernel;
  readonly rehearsal: Rehearsal;
  readonly journal: Journal;
  readonly probes: Probes;
  readonly declined: DeclinedEndpoints;
  /** Where signatures are required: keys for endpoints are bound to these. */
  readonly networks?: ReleasedNetworks;
  /** Left out: nobody watches. */
  readonly updates?: UpdateWatch;
  readonly clock: Clock;
  readonly person: Person;
  readonly report: Report;
  /** How long a real server may drain. */
  readonly drainMs: number;
}

/** What the machine is and can do, as far as admission asks. kernel/facts.ts reads it. */
export interface NodeFacts extends Machine {
  /** Per family with tools: the version of iptables, such as `1.8.9`. */
  readonly tools: { readonly [F in Family]?: string };
  /** Tools of mode ipvs that the node lacks. */
  readonly ipvsToolsMissing: readonly string[];
  /** Process ids of the kube-proxies that run now. */
  kubeProxies(): readonly number[];
  /** True when the sysctl has this value or can be given it. */
  sysctlTakes(key: SysctlKey, value: number): boolean;
}

/** Why nothing was touched. */
export interface Refusal {
  readonly problems: readonly Problem[];
}
