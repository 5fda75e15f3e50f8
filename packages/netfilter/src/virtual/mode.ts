import { toolOf, virtualTools } from '../family.ts';
import type { ModeFacts } from '../rules/mode-facts.ts';

/** Mode ipvs: virtual servers, and rules that match sets of their addresses. */
export const ipvsFacts: ModeFacts = {
  hasTables: true,
  hasServiceChains: false,
  dropsInvalid: false,
  dropsUnallocated: false,
  bindsAddresses: true,
  // The rule for health checks matches every protocol.
  healthChecks: { protocols: ['tcp', 'udp', 'sctp'], areAccepted: true },
  nodePorts: { onlyOnOwnAddress: false, onLoopback: false, addresses: 'by-one-variable' },
  tools: (family) => [toolOf[family], ...virtualTools],
  serviceTool: () => 'ipvs',
};
