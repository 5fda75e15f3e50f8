import type { NodeFacts } from '../ports/node-facts.ts';

/** For tests only: a node that can run every bundle. */
export const sampleFacts: NodeFacts = {
  tools: { ipv4: '1.8.9', ipv6: '1.8.9' },
  addresses: { ipv4: ['192.0.2.11'], ipv6: ['fd00::11'] },
  ipvsToolsMissing: [],
  kernelRelease: '6.1.0',
  tcpBeLiberal: false,
  kubeProxies: () => [],
  sysctlTakes: () => true,
};
