import type { Family, TableName } from '../rulefile.ts';
import type { TransportProtocol } from '../rules/rule.ts';
import type { IpvsState } from '../virtual/values.ts';

/** The first packet of a connection. */
export interface Packet {
  readonly family: Family;
  readonly source: string;
  readonly destination: string;
  readonly protocol: TransportProtocol;
  /** Of the destination. */
  readonly port: number;
  /** The interface that it comes in by; absent: a process of the node itself sends it. */
  readonly in?: string;
  /**
   * What session affinity knows this client by: the endpoint's KUBE-SEP-* chain, or in mode ipvs the endpoint itself,
   * `10.244.1.5:8080`; absent: a new client.
   */
  readonly remembers?: string;
}

/** What the kernel knows apart from the rules. */
export interface World {
  /** In mode ipvs: the virtual servers, sets and addresses of the node. */
  readonly ipvs?: IpvsState | undefined;
  /** Of the node's interfaces. 127.0.0.0/8 and ::1 count always. */
  readonly localAddresses: readonly string[];
  /** Names of the switches that are on while a program of layout `tree` is on trial: sets that hold every source. */
  readonly switches?: readonly string[];
}

/** One way that the packet can go. */
export interface Outcome {
  /**
   * `dnat`: a Service leads it to `to`. `accept`: a rule lets it in as it is. `pass`: no Service's rule decides; it goes on to
   * its own destination. `reject`, `drop`: it ends here.
   */
  readonly verdict: 'dnat' | 'accept' | 'pass' | 'reject' | 'drop';
  /** The endpoint, with `dnat`: `10.244.1.5:8080` or `[fd00::5]:8080`. */
  readonly to?: string;
  /** The endpoint sees the node's address instead of the client's. */
  readonly masquerade: boolean;
  /** Of this outcome; those of all outcomes add up to 1. */
  readonly probability: number;
  /** The rules that matched on one such way, in order. */
  readonly path: readonly RuleHit[];
}

/** A rule that matched. */
export interface RuleHit {
  /** `ipvs`: a virtual server, which stands as the chain, with a real server as the rule. */
  readonly table: TableName | 'ipvs';
  readonly chain: string;
  readonly rule: string;
}

/** Something that the tracer does not understand. It never guesses. */
export class TraceError extends Error {
  override readonly name = 'TraceError';
}
