import type { BundleTool, Family } from '../family.ts';
import type { TransportProtocol } from './rule.ts';

/** How a node forwards packets to endpoints. */
export type Mode = 'iptables' | 'ipvs' | 'nftables';

/** The data planes of a node: the two layouts of mode iptables, and the other modes. */
export type PlaneName = 'flat' | 'tree' | Exclude<Mode, 'iptables'>;

/** What code for every mode needs to know of one. `modeFacts` has those of each mode, so that no other code compares names of modes. */
export interface ModeFacts {
  /** Whether its rules are in the tables of iptables, an own program for each family. */
  readonly hasTables: boolean;
  /** Whether each Service has chains of its own. Only then are there two layouts of them: `flat` and `tree`. */
  readonly hasServiceChains: boolean;
  /** Whether forwarded packets in conntrack state INVALID are dropped. */
  readonly dropsInvalid: boolean;
  /** Whether packets to addresses of Service CIDRs that no Service has are dropped, and those to other ports of ClusterIPs rejected. */
  readonly dropsUnallocated: boolean;
  /** Whether each node gets the addresses of Services as its own: it then reaches no other host at one of them. */
  readonly bindsAddresses: boolean;
  /** When kube-proxy ends it, as the rest of a sentence; absent: not as far as is known. */
  readonly ends?: string;
  /** Packets to the health-check port of a Service. */
  readonly healthChecks: {
    /** The protocols that they are judged for. */
    readonly protocols: readonly TransportProtocol[];
    /** Whether a rule accepts them; else a firewall of the node decides. */
    readonly areAccepted: boolean;
  };
  /** How node ports are opened. */
  readonly nodePorts: {
    /** Whether they are open on the node's own address alone where the profile has no `nodePortAddresses`. */
    readonly onlyOnOwnAddress: boolean;
    /** Whether they can be open on 127.0.0.1. */
    readonly onLoopback: boolean;
    /** How files name their addresses: by a variable of each family, by one for both families, or as themselves. */
    readonly addresses: 'by-family' | 'by-one-variable' | 'as-elements';
  };
  /** The tools of a profile's files for a family, in the order of loading. The first one's base files say that a profile has the family. */
  tools(family: Family): readonly [BundleTool, ...BundleTool[]];
  /** The tool of the file with a Service's frontends and endpoints. */
  serviceTool(family: Family): BundleTool;
}

/** Gate `AllowServiceExternalIPs` of kube-proxy (KEP-5707), as the rest of a sentence. */
export const externalIPsEnd = 'off by default in Kubernetes 1.40 (expected in August 2027)';
