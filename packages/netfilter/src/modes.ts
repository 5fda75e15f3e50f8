import type { Mode, ModeFacts } from './rules/mode-facts.ts';
import { toolOf, virtualTools } from './family.ts';

/** Mode nftables: one table for both families, in which Services are elements. */
const nftablesFacts: ModeFacts = {
  hasTables: false,
  hasServiceChains: false,
  dropsInvalid: false,
  dropsUnallocated: true,
  bindsAddresses: false,
  healthChecks: { protocols: ['tcp'], areAccepted: false },
  nodePorts: { onlyOnOwnAddress: true, onLoopback: false, addresses: 'as-elements' },
  tools: () => ['nft'],
  serviceTool: () => 'nft',
};

/** Mode ipvs: virtual servers, and rules that match sets of their addresses. */
const ipvsFacts: ModeFacts = {
  hasTables: true,
  hasServiceChains: false,
  dropsInvalid: false,
  dropsUnallocated: false,
  bindsAddresses: true,
  // Gate `KubeProxyIPVS` of 1.38 (`pkg/features/kube_features.go`). Kubernetes has three releases a year: 1.38 in December 2026.
  ends: 'off by default in Kubernetes 1.40 (expected in August 2027) and gone in 1.43 (August 2028)',
  // The rule for health checks matches every protocol.
  healthChecks: { protocols: ['tcp', 'udp', 'sctp'], areAccepted: true },
  nodePorts: { onlyOnOwnAddress: false, onLoopback: false, addresses: 'by-one-variable' },
  tools: (family) => [toolOf[family], ...virtualTools],
  serviceTool: () => 'ipvs',
};

/** Mode iptables: rules, in chains of each Service. */
const iptablesFacts: ModeFacts = {
  hasTables: true,
  hasServiceChains: true,
  dropsInvalid: true,
  dropsUnallocated: false,
  bindsAddresses: false,
  healthChecks: { protocols: ['tcp'], areAccepted: true },
  // IPVS serves no loopback address, and no rule of mode nftables does (`NewProxier` in `pkg/proxy/iptables`).
  nodePorts: { onlyOnOwnAddress: false, onLoopback: true, addresses: 'by-family' },
  tools: (family) => [toolOf[family]],
  serviceTool: (family) => toolOf[family],
};

/** The modes: a further mode is a further entry. */
export const modeFacts = {
  iptables: iptablesFacts,
  ipvs: ipvsFacts,
  nftables: nftablesFacts,
} as const satisfies Record<Mode, ModeFacts>;

/** The names of all modes, in the order of help texts. */
export const modes = Object.keys(modeFacts) as readonly Mode[];
