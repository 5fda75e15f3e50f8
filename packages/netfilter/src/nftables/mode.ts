import type { ModeFacts } from '../rules/mode-facts.ts';

/** Mode nftables: one table for both families, in which Services are elements. */
export const nftablesFacts: ModeFacts = {
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
