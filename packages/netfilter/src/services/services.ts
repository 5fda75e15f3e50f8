import type { Family } from '../family.ts';
import type { FamilyProgram } from '../link/program.ts';
import type { Mode } from '../rules/mode-facts.ts';
import type { NftState } from '../nftables/state.ts';
import type { TransportProtocol } from '../rules/rule.ts';
import type { IpvsState } from '../virtual/values.ts';
import type { DescribedFrontend, TrafficPolicy } from './described.ts';
import type { ServiceFrontend } from './of-rule.ts';

/** What forwards packets on a node: the rules of each family, in mode ipvs also virtual servers, in mode nftables one table alone. */
export interface ForwardingState {
  readonly families: { readonly [F in Family]?: FamilyProgram };
  readonly ipvs?: IpvsState;
  readonly nft?: NftState;
}

/** One endpoint of a Service. */
export interface ServiceEndpoint {
  readonly address: string;
  /** How connections to it are treated, with `*` for its own address and name. */
  readonly form: string;
  /** What belongs to it alone: its chain without the tag; `''` if it has none. */
  readonly chain: string;
  /** With 0 it gets no new connections. */
  readonly weight: number;
  /** Whether connections of the endpoint to itself are masqueraded. */
  readonly masqueradesItself: boolean;
  /** Session affinity: whether its clients are remembered. */
  readonly remembersClients: boolean;
  /** Whether it is on this node; left out where nothing shows it. */
  readonly isHere?: boolean;
}

/**
 * One Service port of one family, as far as endpoints serve it: one data plane has one more for the endpoints of this node alone, another
 * has one for each frontend, a third has both. It is read from what forwards packets, never from comments: these may lie.
 */
export interface Service {
  /** The same in every state of one layout and mode: `ipv4 SLU-SVC-JHDHFGEGLBNOLDNC`, in modes ipvs and nftables `10.96.0.10:80/TCP`. */
  readonly key: string;
  readonly family: Family;
  /** The key of the same Service port with the endpoints of this node alone, or of all nodes; left out where there is none. */
  readonly siblingKey?: string;
  /** By `address:port`. */
  readonly endpoints: ReadonlyMap<string, ServiceEndpoint>;
  /** Session affinity: each `address:port`, in the order in which their lists of clients are searched; empty without. */
  readonly affinityOrder: readonly string[];
  /** How it chooses among endpoints, in comparable form. */
  readonly choice: string;
  /** Whether all that it does besides is to masquerade, before it chooses. */
  readonly onlyMasquerades: boolean;
  /** Its frontends as `FrontendChange.frontend`, where it has them by itself. */
  readonly frontends: readonly string[];
  /** Whether packets from outside of the cluster are served by endpoints of this node alone, where that shows. */
  readonly isLocalOutside: boolean;
}

/** A frontend with its Service. */
export interface NamedFrontend extends ServiceFrontend {
  /** `shop/web:http`, for people; where nothing names Services, the frontend itself. */
  readonly service: string;
}

/** A frontend and an endpoint that serves it. */
export interface ServedFrontend {
  readonly family: Family;
  readonly protocol: TransportProtocol;
  /** undefined: a node port at any address of the node. */
  readonly address: string | undefined;
  readonly port: number;
  /** `10.244.1.5:8080` */
  readonly endpoint: string;
}

/** A frontend as packets from outside of the node meet it. */
export interface ReachedFrontend {
  readonly protocol: TransportProtocol;
  readonly port: number;
  /** `shop/web:http`, where something names Services. */
  readonly service?: string;
  /** Local: endpoints of this node alone serve it. */
  readonly policy: TrafficPolicy;
  /** The number of endpoints that serve it; without any its packets are refused or dropped. */
  readonly endpoints: number;
}

/** The Services of one state. Everything is read when it is asked for. */
export interface Services {
  readonly count: number;
  has(key: string): boolean;
  /** @returns undefined if there is no such Service, or if its endpoints cannot be distinguished from other rules */
  service(key: string): Service | undefined;
  /** Any of the Services of a family. */
  any(family: Family): Service | undefined;
  /** The addresses of all endpoints. */
  addresses(): ReadonlySet<string>;
  /**
   * Its frontends, each once.
   * @param withRejected also those of Services without endpoints
   * @param protocol only those of it
   */
  frontends(family: Family, withRejected: boolean, protocol?: TransportProtocol): Iterable<NamedFrontend>;
  /** Its frontends in more detail, each once, those of node ports without an address. */
  describe(family: Family): readonly DescribedFrontend[];
  /** The frontends at an address that is not one of the node itself. The first call costs a walk over all rules, further ones do not. */
  at(address: string): readonly ReachedFrontend[];
  /**
   * Every combination of frontend and endpoint of a protocol.
   * @param unlike those that both states certainly have may be left out
   */
  served(protocol: TransportProtocol, unlike: ForwardingState): Iterable<ServedFrontend>;
  /** The same of the frontends of a protocol that reject packets for want of an endpoint; some of these may be served besides. */
  refused(protocol: TransportProtocol, unlike: ForwardingState): Iterable<Omit<ServedFrontend, 'endpoint'>>;
}

/** A Service that is not the same in two states. */
export interface ServiceChange {
  readonly key: string;
  /** `shop/web:http`, for people; where nothing names Services, the frontend: `10.96.0.10:80/TCP`. */
  readonly name: string;
  /** undefined: absent, or not of the form that `sluice render` writes. */
  readonly before: Service | undefined;
  readonly after: Service | undefined;
  /** A part of the texts of its files, where there is one: the hash in the names of its chains. */
  readonly fileMark?: string;
  /** Whether its endpoints alone differ, and the new ones are treated like those before. */
  readonly fits: boolean;
}

/** A frontend at which something else happens than before. */
export interface FrontendChange {
  /** `ipv4 tcp 10.96.0.10 80`; of a node port `ipv4 tcp * 30080`. */
  readonly frontend: string;
  /** Whether endpoints serve it in the state before, but not in the other one; and the reverse. */
  readonly served: BeforeAndAfter;
  /** The same for a rule that rejects or drops its packets. */
  readonly refused: BeforeAndAfter;
}

interface BeforeAndAfter {
  readonly before: boolean;
  readonly after: boolean;
}

/** Two states of one data plane, compared as far as it is asked for. */
export interface Comparison<S extends ForwardingState> {
  readonly from: Services;
  /** Services of both states. */
  readonly changed: readonly ServiceChange[];
  /** Services of one state alone. */
  readonly added: readonly ServiceChange[];
  readonly removed: readonly ServiceChange[];
  /** Whether the states are equal, except for the endpoints of `changed`. */
  readonly isRestSame: boolean;
  /** What happens at frontends; undefined if the states also differ by more than that, `changed` and `added`. */
  readonly frontends: readonly FrontendChange[] | undefined;
  /**
   * The state before with newer endpoints.
   * @param some of `changed`, all of which fit
   * @returns a state that equals the other one shares its tables
   */
  withEndpoints(some: readonly ServiceChange[]): S;
}

/** What comparisons of two whole states share. */
export abstract class ComparedStates<S extends ForwardingState> {
  protected readonly before: S;
  protected readonly after: S;
  readonly from: Services;

  /** @param from the Services of `before` */
  constructor(before: S, after: S, from: Services) {
    this.before = before;
    this.after = after;
    this.from = from;
  }
}

/**
 * A way of forwarding packets to endpoints. Code that judges endpoint updates, forgets flows, orders frontends or compares Services asks
 * it, and reads no rule text: another data plane plugs in here.
 */
export interface DataPlane {
  readonly mode: Mode;
  /** Whether connections that it translated meet the rules of another data plane, once conntrack forgets them. */
  readonly isSeenByNat: boolean;
  read(state: ForwardingState): Services;
  compare<S extends ForwardingState>(from: S, to: S): Comparison<S>;
}
