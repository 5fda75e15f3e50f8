import type { IpvsKernel } from './ipvs/ports.ts';
import type { IpvsStep } from './ipvs/values.ts';
import type { NftKernel } from './nftables/ports.ts';
import type { NftStep } from './nftables/values.ts';
import type { NodeState, Observed } from './node-state.ts';
import type { Family, SysctlKey, TableName } from '@sluice/netfilter';

/**
 * One atomic change of the kernel: a table of one family, a sysctl, the hash size, the table of mode nftables. Batches of mode ipvs are
 * the exception: the kernel takes them line by line.
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
  | IpvsStep
  | NftStep;

/** Names of chains by table. */
export type ChainNames = { readonly [T in TableName]?: readonly string[] };

/** Rules by table and chain. */
export type ChainRules = Readonly<Record<TableName, ReadonlyMap<string, readonly string[]>>>;

/** The kernel. kernel/linux and kernel/fake pass the same contract suite. */
export interface Kernel {
  /** True if one payload must not create many chains (`limits.chainsPerPayloadMax`). */
  readonly slowWithManyChains: boolean;
  /** Sets, virtual servers and addresses; undefined if the tools for them are missing. */
  readonly ipvs?: IpvsKernel | undefined;
  /** The table of mode nftables; undefined if `nft` is missing. */
  readonly nft?: NftKernel | undefined;
  /**
   * Reads both tables of these families, with foreign rules.
   * @param known the expected state: a chain with these rules is returned as the same object, which saves memory and allows comparison by
   *   identity
   * @param interrupt aborts the call
   * @throws Interrupted then, and only then
   */
  observe(families: readonly Family[], known?: Pick<NodeState, 'families'>, interrupt?: AbortSignal): Promise<Observed>;
  /** The rules of some chains of each table as the kernel prints them. A chain that does not exist is left out. */
  observeChains(family: Family, chains: ChainNames): Promise<ChainRules>;
  /**
   * Counts changes of nf_tables in this network namespace, by any program, this one included. While it is the same, no table, chain, rule,
   * set or element changed, of iptables-nft or mode nftables; what packets fill or time outs remove is not counted, and neither are ipset
   * and IPVS. Cheap: 0.1 ms.
   * @returns undefined: not known, as with the legacy store
   */
  changeCount?(): Promise<string | undefined>;
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
  /** Chooses between two programs of layout `tree` or mode nftables; undefined without ipset and nft: then there is no dead-man switch. */
  readonly switch?: Switch | undefined;
  /** Whether there are traces of a kube-proxy in another mode than iptables: its interface, or its table in nftables. */
  proxyTraces(): Promise<{ readonly ipvs: boolean; readonly nftables: boolean }>;
  /**
   * Deletes the conntrack entries of stale flows. Best effort; called after the change, never before.
   * @param found called with the number of entries, before they are deleted
   * @returns the number of entries
   */
  forgetFlows(flows: readonly TrackedFlow[], found?: (connections: number) => void): Promise<number>;
  /**
   * The paths of translated UDP connections in the conntrack table, each once, up to a limit.
   * @param among each family is a walk over the whole table
   * @throws KernelError when they cannot be read
   */
  trackedPaths?(among: readonly Family[], frontends: ReadonlySet<string>): Promise<readonly TrackedPath[]>;
}

/** Whether packets meet the new program: no; yes, until a time-out; yes, without a time-out. */
export type SwitchState = 'off' | 'on' | 'pinned';

/**
 * The switch between a confirmed program and one in probation: the sets `SLUICE-N`, which nat matches, and `SLUICE-F`, which filter
 * matches. They exist only while a transaction is open. Their entries time out, which makes them the dead-man switch.
 */
export interface Switch {
  /** It can choose between two states of mode nftables, and not between programs of layout `tree`. */
  readonly isOnlyNft?: boolean;
  /** undefined if the sets do not exist. */
  look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined>;
  /**
   * Creates the sets, off. Existing sets stay as they are.
   * @param sources networks whose packets meet the new program; none: all packets of both families
   * @param withOwn also packets of this node
   * @param isNft chooses between states of mode nftables, else between programs of layout `tree`
   */
  make(sources: readonly string[], withOwn?: boolean, isNft?: boolean): Promise<void>;
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

/** From the address and port that clients asked for to the endpoint that replies. */
export interface TrackedPath {
  readonly family: Family;
  readonly address: string;
  readonly port: number;
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
}
