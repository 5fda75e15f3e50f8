import { toolOf } from '../family.ts';
import type { ModeFacts } from './mode-facts.ts';

/** Mode iptables: rules, in chains of each Service. */
export const iptablesFacts: ModeFacts = {
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
