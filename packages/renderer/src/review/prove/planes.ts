import type { Family, Mode } from '@sluice/netfilter';
import type { HeaderNotes } from '../bundle/header.ts';
import type { BundleView } from '../bundle/view.ts';
import type { DeclaredConnection, ExpectedOutcome, ProfileTrafficPolicy } from './connection.ts';
import type { Role } from './declared.ts';
import { expectedIptables } from './expected-iptables.ts';
import { expectedIpvs } from './expected-ipvs.ts';
import { expectedNft } from './expected-nft.ts';
import { iptablesPolicy } from './policy-iptables.ts';
import { ipvsPolicy } from './policy-ipvs.ts';
import { nftPolicy } from './policy-nft.ts';

/** What declarations demand of the nodes of a mode. */
interface ProvenMode {
  /** The outcome that a Service's declaration demands; health checks are asked of `modeFacts`. */
  readonly expected: (connection: DeclaredConnection) => ExpectedOutcome;
  /** Reads the traffic policy of a profile from its base files and the rules of its Services. */
  readonly trafficPolicy: (view: BundleView, profile: string, family: Family) => ProfileTrafficPolicy;
  /** Whether nodes carry a destination's address, so that its other ports are theirs, too. */
  readonly carries: (role: Role) => boolean;
  /** Where an endpoint's connections to itself are masqueraded: on every node, or by its own node's lines alone. */
  readonly hairpin: 'everywhere' | 'on-own-node' | 'by-own-elements';
  /** Networks that are distinguished besides the source ranges of a load balancer, where it has any. */
  readonly sourcesBeside: (notes: HeaderNotes) => readonly string[];
}

export const provenModes: Readonly<Record<Mode, ProvenMode>> = {
  iptables: {
    expected: expectedIptables,
    trafficPolicy: iptablesPolicy,
    carries: () => false,
    hairpin: 'everywhere',
    sourcesBeside: () => [],
  },
  ipvs: {
    expected: expectedIpvs,
    trafficPolicy: ipvsPolicy,
    carries: () => true,
    hairpin: 'on-own-node',
    sourcesBeside: () => [],
  },
  nftables: {
    expected: expectedNft,
    trafficPolicy: nftPolicy,
    carries: (role) => role === 'cluster',
    hairpin: 'by-own-elements',
    // From such an address a node inside of the ranges connects.
    sourcesBeside: ({ loadBalancerAddresses }) => loadBalancerAddresses,
  },
};
