import type { FamilyProgram, IpvsState, LiveWorld, NftState, Outcome } from '@sluice/netfilter';

/** The program of a node in one family. */
export interface NodeProgram {
  readonly rules: FamilyProgram;
  /** In mode ipvs: its virtual servers, sets and addresses. */
  readonly ipvs?: IpvsState;
  /** In mode nftables: its table, and no rules. */
  readonly nft?: NftState;
  /** Of an observed node: its tables. */
  readonly live?: LiveWorld;
}

/** What tracing asks about one part of a node's program: its rules, its virtual servers, or its table. */
export interface FlowPlane {
  /** Whether sources distinguish connections at frontends alone. */
  readonly looksAtFrontendsAlone: boolean;
  /** Whether anything in it can have a scheduler. */
  mayHaveScheduler(program: NodeProgram): boolean;
  /** Whether anything in it can have session affinity. */
  mayHaveAffinity(program: NodeProgram): boolean;
  /** The schedulers of what some paths traverse; none where endpoints are chosen by rules. */
  schedulersOn(outcomes: readonly Outcome[], program: NodeProgram): readonly string[];
  /** How long what a path traverses keeps the endpoint of a client, in seconds; none where rules remember clients. */
  secondsOn(outcome: Outcome, program: NodeProgram): readonly number[];
  /** The sources that it distinguishes by name. */
  named(program: NodeProgram): NamedSources;
  /** The addresses of its endpoints, by how their packets are treated; none where each has to be looked at. */
  endpoints(program: NodeProgram): EndpointTreatment;
}

/** Networks, and interfaces by a name that matches. */
export interface NamedSources {
  readonly networks: readonly string[];
  readonly interfaces: readonly string[];
}

/** Addresses by the treatment of their packets. */
export interface EndpointTreatment {
  /** As those of other pods, but masqueraded where they are translated to themselves. */
  readonly masked: ReadonlySet<string>;
  /** As those of other pods. */
  readonly unmasked: ReadonlySet<string>;
  /** In another way. */
  readonly special: ReadonlySet<string>;
}
