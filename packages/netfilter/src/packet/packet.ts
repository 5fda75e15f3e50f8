import type { Family, TableName } from '../family.ts';
import type { TransportProtocol } from '../rules/rule.ts';

/** The first packet of a connection. */
export interface Packet {
  readonly family: Family;
  readonly source: string;
  readonly destination: string;
  readonly protocol: TransportProtocol;
  /** The destination port. */
  readonly port: number;
  /** The incoming interface; absent: a process of the node itself sends it. */
  readonly in?: string;
  /**
   * The endpoint that session affinity has for this client: its KUBE-SEP-* chain, or in other modes `10.244.1.5:8080`; absent: a new
   * client.
   */
  readonly remembers?: string;
}

/** One possible result for a packet. */
export interface Outcome {
  /**
   * `dnat`: a Service translates it to `to`. `accept`: a rule accepts it untranslated. `pass`: no Service matches; the packet continues to
   * its original destination. `reject`, `drop`: a rule rejects or drops it.
   */
  readonly verdict: 'dnat' | 'accept' | 'pass' | 'reject' | 'drop';
  /** The endpoint, with `dnat`: `10.244.1.5:8080` or `[fd00::5]:8080`. */
  readonly to?: string;
  /** Whether the endpoint sees the node's address instead of the client's. */
  readonly masquerade: boolean;
  /** The probabilities of all outcomes add up to 1. */
  readonly probability: number;
  /** The rules that matched, in order; of several paths with this outcome, those of one. */
  readonly path: readonly RuleHit[];
}

/** A rule that matched. */
export interface RuleHit {
  /** `ipvs`: `chain` is a virtual server, `rule` a real server. `nftables`: `chain` is a set, a map or a chain, `rule` its element; `no …` one that it lacks. */
  readonly table: TableName | 'raw' | 'mangle' | 'security' | 'ipvs' | 'nftables';
  readonly chain: string;
  readonly rule: string;
  /** Of observed rules: whose it is. */
  readonly owner?: 'proxy' | 'foreign';
  /** Of an observed rule of nftables: what it rejects with, unless port unreachable. */
  readonly reason?: string;
  /** Of observed rules: their part in session affinity. */
  readonly recent?: { readonly action: 'rcheck' | 'set'; readonly name: string; readonly seconds?: number };
}

/** A rule or packet that the tracer does not understand. It never guesses. */
export class TraceError extends Error {
  override readonly name = 'TraceError';
}
