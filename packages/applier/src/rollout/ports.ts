import type { Family, Problem, SysctlKey, TableName } from '@sluice/bundle';
import type { Drain, IpvsStep } from '../ipvs/values.ts';
import type { IpvsKernel } from '../ipvs/ports.ts';
import type { Rehearsal } from './rehearsal.ts';
import type { ChainNames, NodeState, Observed } from './state.ts';

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
  /** Both tables of these families, whoever made what is in them. */
  observe(families: readonly Family[]): Promise<Observed>;
  /** The rules of some chains as the kernel prints them. A chain that is not there is absent. */
  observeChains(
    family: Family,
    table: TableName,
    chains: readonly string[],
  ): Promise<ReadonlyMap<string, readonly string[]>>;
  /** Takes the step whole or throws a `KernelError` and takes nothing of it. */
  apply(step: Step): Promise<void>;
  /** Loads rules for real where no packet meets them. Throws a `KernelError` when the kernel does not take them. */
  rehearse(state: NodeState): Promise<void>;
  /** The value now; undefined when this kernel has no such key. */
  readSysctl(key: SysctlKey): Promise<number | undefined>;
  /** The size of the conntrack hash table; undefined when it cannot be read or raised here, and then nothing is planned for it. */
  readHashSize(): Promise<number | undefined>;
  /** What a kube-proxy in another mode than iptables left: its interface, or its table in nftables. */
  proxyTraces(): Promise<{ readonly ipvs: boolean; readonly nftables: boolean }>;
  /**
   * Forgets connections that would go on as before whatever the rules say. Best effort, after the change and never before.
   * @returns how many there were
   */
  forgetFlows(flows: readonly Flow[]): Promise<number>;
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

/** Flows that only the old program has, and flows that only the new one has. */
export interface FlowChange {
  readonly old: readonly Flow[];
  readonly fresh: readonly Flow[];
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

/** A transaction that has begun and is neither confirmed nor taken back. Together with generation `from` it is the way back. */
export interface Intent {
  /** The generation that stands, or stood, when the transaction begins. */
  readonly from: number;
  readonly version: string;
  /** Chains that the transaction makes and generation `from` lacks. */
  readonly creates: ChainNames;
  /** The values that sysctls had before, of those that generation `from` does not set. */
  readonly sysctls: ReadonlyMap<SysctlKey, number>;
}

/** What one generation put into the kernel. */
export interface Generation {
  readonly number: number;
  readonly version: string;
  readonly state: NodeState;
}

export type Fault = 'bundle' | 'process';

/** The memory that outlives the process. history/ implements it on disk; each call is durable when it returns. */
export interface Journal {
  /** What the node boots: the last confirmed generation; undefined before the first. */
  readonly standing: Generation | undefined;
  /** The transaction that was open when the process before this one ended. */
  readonly open: Intent | undefined;
  /** Why a person must look; undefined on most days. */
  readonly held: string | undefined;
  /** The generation that should stand, where it cannot be read; the node is held then. */
  readonly damaged: { readonly number: number; readonly because: string } | undefined;
  /** Why this version must not be applied again by itself. */
  quarantined(version: string): string | undefined;
  /** A generation that is still kept. */
  generation(number: number): Promise<Generation | undefined>;
  /** Stores what stood before Sluice as generation 0. */
  adopt(state: NodeState): Promise<Generation>;
  /**
   * Opens a transaction.
   * @param state what it leads to: stored here, before anything is changed, so that a full disk is met in time
   */
  begin(intent: Intent, state: NodeState): Promise<void>;
  /** Closes the transaction: from here on the generation is what the node boots. */
  confirm(version: string, state: NodeState): Promise<Generation>;
  /**
   * Closes the transaction: generation `from` stands again.
   * @param fault of the bundle: it failed, its version is quarantined; of the process: it ended by itself, the version may be tried
   *   again, though not for ever
   */
  abandon(because: string, fault: Fault): Promise<void>;
  /** Counts one more process that tries to finish the open transaction. Returns how many there were, this one included. */
  countRecovery(): Promise<number>;
  /** Says that a person must look; the transaction stays open. */
  hold(because: string): Promise<void>;
  /** A person's decision: this generation stands, whatever was open or held; the version that is left is quarantined. */
  choose(target: Generation): Promise<Generation>;
  /** The generation that stands cannot be read: an older one stands in its place, and nothing is held or open. */
  fallBack(target: Generation, because: string): Promise<void>;
  /** The values that sysctls had before Sluice first set them. */
  readonly originals: ReadonlyMap<SysctlKey, number>;
  /** Real servers that drain; kept, so that the next process goes on with them. */
  readonly draining: readonly Drain[];
  keepDraining(draining: readonly Drain[]): Promise<void>;
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
  /** Every probe once, side by side: the state before a change. */
  once(): Promise<readonly ProbeResult[]>;
  /** Each probe until it passes or its attempts are used up. */
  patiently(): Promise<readonly ProbeResult[]>;
}

export interface Clock {
  /** Milliseconds since 1970, for what outlives the process. */
  now(): number;
  sleep(ms: number): Promise<void>;
}

/** What the transaction says on its way; never needed for its outcome. */
export type Report = (event: string, details: Readonly<Record<string, unknown>>) => void;

export interface Ports {
  readonly kernel: Kernel;
  readonly rehearsal: Rehearsal;
  readonly journal: Journal;
  readonly probes: Probes;
  readonly clock: Clock;
  readonly report: Report;
  /** How long a real server may drain. */
  readonly drainMs: number;
}

/** What the machine is and can do, as far as admission asks. kernel/facts.ts reads it. */
export interface NodeFacts {
  /** Per family with tools: the version of iptables, such as `1.8.9`. */
  readonly tools: { readonly [F in Family]?: string };
  /** Per family: the addresses of the machine's interfaces. */
  readonly addresses: Readonly<Record<Family, readonly string[]>>;
  /** Tools of mode ipvs that the node lacks. */
  readonly ipvsToolsMissing: readonly string[];
  /** Such as `6.1.0-44-amd64`. */
  readonly kernelRelease: string;
  /** Process ids of the kube-proxies that run now. */
  kubeProxies(): readonly number[];
  /** True when the sysctl has this value or can be given it. */
  sysctlTakes(key: SysctlKey, value: number): boolean;
}

/** Why nothing was touched. */
export interface Refusal {
  readonly problems: readonly Problem[];
}
