import { anyAddress, type Family, nftFamily, readFrontendKey, readNftLine } from '@sluice/netfilter';
import { virtualLines } from './lines.ts';
import type { FileReach } from './reach.ts';
import type { TextReach } from './text-reach.ts';

/**
 * The packets that the lines of a Service's `.nft` file can match, read from the text without resolving it. Each element names a
 * frontend; packets to other ports of a ClusterIP are rejected because of it.
 */
export function nftReach(text: string, family: Family): FileReach {
  const [exact, ports, targets, bound] = [
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
    new Set<string>(),
  ] as const;
  for (const line of virtualLines(text)) {
    // Nearly half of the lines are about endpoints as clients of themselves, which matches no destination.
    if (line.startsWith('add element inet sluice loop') || nftFamily(line) !== family) continue;
    const read = readNftLine(line);
    // Linking reports lines that cannot be read.
    if ('error' in read) continue;
    for (const element of read.elements) {
      if (element.kind === 'cluster') bound.add(element.address);
      if (!('key' in element)) continue;
      const { protocol, address, port } = readFrontendKey(element.key);
      if (address === anyAddress[family]) ports.add(`${protocol} ${port}`);
      else exact.add(`${protocol} ${address} ${port}`);
      if (element.kind !== 'endpoint' && element.kind !== 'local') continue;
      const [target, targetPort] = element.endpoint.split(' . ');
      targets.add(`${protocol} ${target} ${targetPort}`).add(`${protocol} ${targetPort}`);
    }
  }
  return { exact, ports, targets, bound, inner: new Set(), wide: [] };
}

const addressForm = /(?:\d+\.){3}\d+|[0-9a-f]*:[0-9a-f:]+/g;
const nodePortForm = /(?<=[ {])(?:0\.0\.0\.0|::) \. (?:tcp|udp|sctp) \. (\d+)/g;

/** The reach of an `.nft` file: a superset of `nftReach`. */
export function nftTextReach(text: string): TextReach {
  const ports = [...text.matchAll(nodePortForm)].map(([, port]) => Number(port));
  return { isWide: false, addresses: text.match(addressForm) ?? [], ports };
}
