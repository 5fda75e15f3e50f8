import { toolOf, virtualTools } from '../family.ts';
import type { ModeFacts } from '../rules/mode-facts.ts';

/** Mode ipvs: virtual servers, and rules that match sets of their addresses. */
export const ipvsFacts: ModeFacts = {
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
