import type { Family, Outcome, Packet, TransportProtocol } from '@sluice/bundle';

/**
 * What a bundle does to traffic, as values: every flow goes from a class of sources to a destination, on nodes that treat it
 * alike. Two bundles with equal flows behave alike, whatever their rules look like.
 */
export interface Flow {
  readonly nodes: NodeGroup;
  readonly family: Family;
  readonly source: Source;
  readonly destination: Destination;
  readonly outcome: FlowOutcome;
  /** A packet that takes this flow on the first node of the group. */
  readonly packet: Packet;
}

/** A flow that two bundles treat differently. */
export interface FlowChange extends Omit<Flow, 'outcome'> {
  readonly old: FlowOutcome;
  readonly new: FlowOutcome;
}

/** Nodes of one profile that no rule in question tells apart. */
export interface NodeGroup {
  readonly profile: string;
  /** In byte order, never empty. */
  readonly nodes: readonly string[];
}

/**
 * Where connections come from. `endpoint`: from an endpoint of a Service, which may meet itself. Every other address belongs
 * to one of the other classes; `network` parts them further where rules ask for a source range.
 */
export interface Source {
  readonly class: 'pod-here' | 'pod-elsewhere' | 'node' | 'outside' | 'endpoint';
  /** The source network that some rule asks for: `198.51.100.0/24`, or the endpoint's address. */
  readonly network?: string;
  /** One address of the class. */
  readonly address: string;
  /** The interface that its packets come in by; absent for the node itself. */
  readonly in?: string;
}

/** Where connections go to. */
export interface Destination {
  /**
   * `address`: a Service's own address. `node-port`: the node's own address. `localhost`: the loopback address, which only the
   * node itself can reach. `elsewhere`: an address that stands for a network some rule asks for.
   */
  readonly kind: 'address' | 'node-port' | 'localhost' | 'elsewhere';
  /** Empty for `node-port`, where every node has its own. */
  readonly address: string;
  readonly port: number;
  readonly protocol: TransportProtocol;
  /** The Services whose files speak of it, `shop/web`, in byte order. */
  readonly services: readonly string[];
}

/** What becomes of the connections of a flow. */
export interface FlowOutcome {
  /** Equal for equal outcomes, and only for these. */
  readonly key: string;
  /** By text of `to`, then verdict. */
  readonly branches: readonly Branch[];
  /** Session affinity: how long each endpoint keeps its clients. Absent: every connection is chosen anew. */
  readonly affinity?: Affinity;
  /** In mode ipvs, where there is a choice: how the kernel makes it, `wrr`. */
  readonly scheduler?: string;
}

export interface Branch extends Pick<Outcome, 'verdict' | 'to' | 'masquerade'> {
  /** The share of connections, 0 to 1. */
  readonly share: number;
  /** How a REJECT answers, where it is not the default. */
  readonly reject?: string;
}

/** Affinity as one sentence: `10800 s`, or what is strange about it. */
export type Affinity = string;
