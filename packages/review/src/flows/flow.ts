import type { Family, Outcome, Packet, TransportProtocol } from '@sluice/netfilter';

/**
 * The treatment of traffic from a class of sources to a destination, on nodes that treat it equally. Two bundles with equal flows are
 * equivalent, even if their rules differ.
 */
export interface TrafficFlow {
  readonly nodes: NodeGroup;
  readonly family: Family;
  readonly source: FlowSource;
  readonly destination: Destination;
  readonly outcome: FlowOutcome;
  /** A packet that takes this flow on the first node of the group. */
  readonly packet: Packet;
}

/** A flow that two bundles treat differently. */
export interface FlowDifference extends Omit<TrafficFlow, 'outcome'> {
  readonly old: FlowOutcome;
  readonly new: FlowOutcome;
}

/** Nodes of one profile that none of the rules distinguishes. */
export interface NodeGroup {
  readonly profile: string;
  /** In byte order, never empty. */
  readonly nodes: readonly string[];
}

/**
 * Where connections come from. `endpoint`: an endpoint of a Service, which may be translated to itself (hairpin). Every other address
 * belongs to one of the other classes; `network` divides these where rules match a source range.
 */
export interface FlowSource {
  readonly class: 'pod-here' | 'pod-elsewhere' | 'node' | 'outside' | 'endpoint';
  /** The source network that a rule matches: `198.51.100.0/24`, or the endpoint's address. */
  readonly network?: string;
  /** One address of the class. */
  readonly address: string;
  /** The incoming interface of its packets; absent for the node itself. */
  readonly in?: string;
}

/** Where connections go to. */
export interface Destination {
  /**
   * `address`: a Service's own address. `node-port`: the node's own address. `localhost`: the loopback address, which only the
   * node itself can reach. `elsewhere`: a sample of the network that a rule matches.
   */
  readonly kind: 'address' | 'node-port' | 'localhost' | 'elsewhere';
  /** Empty for `node-port`, where every node has its own. */
  readonly address: string;
  readonly port: number;
  readonly protocol: TransportProtocol;
  /** The Services whose files name it, `shop/web`, in byte order. */
  readonly services: readonly string[];
}

/** The treatment of a flow's connections. */
export interface FlowOutcome {
  /** Equal for equal outcomes, and only for these. */
  readonly key: string;
  /** By text of `to`, then verdict. */
  readonly branches: readonly Branch[];
  /** Session affinity: how long clients stay on an endpoint. Absent: each connection gets a new one. */
  readonly affinity?: Affinity;
  /** With two or more endpoints: the scheduler of mode ipvs, `wrr`; of mode nftables, unless it is `random`, `maglev 1009`. */
  readonly scheduler?: string;
}

export interface Branch extends Pick<Outcome, 'verdict' | 'to' | 'masquerade'> {
  /** The share of connections, 0 to 1. */
  readonly share: number;
  /** The answer of a REJECT, unless it is the default. */
  readonly reject?: string;
}

/** Affinity as a text: `10800 s`, or a list of what each endpoint does. */
export type Affinity = string;
