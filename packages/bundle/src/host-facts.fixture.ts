import type { Family } from '@sluice/netfilter';
import type { HostFacts } from './host-facts.ts';

/** Prints the file. Keys are in the order of README.md, so that equal facts give equal bytes. */
export function printHostFacts(facts: HostFacts): string {
  const { node, kernelRelease, addresses, tcpBeLiberal, knowsBpf, providesKubeChains } = facts;
  const list = (family: Family): string =>
    addresses[family].length === 0
      ? `  ${family}: []`
      : [`  ${family}:`, ...addresses[family].map((one) => `    - ${JSON.stringify(one)}`)].join('\n');
  return `apiVersion: sluice.dev/v1alpha1
kind: HostFacts
format: 1
node: ${JSON.stringify(node)}
kernelRelease: ${JSON.stringify(kernelRelease)}
addresses:
${list('ipv4')}
${list('ipv6')}
tcpBeLiberal: ${tcpBeLiberal}
knowsBpf: ${knowsBpf}
providesKubeChains: ${providesKubeChains}
`;
}
