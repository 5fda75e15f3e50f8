import { virtualLines } from '@sluice/bundle';
import { anyAddress, type Family, type NftElement, readFrontendKey, readNftLine } from '@sluice/netfilter';
import { type FileMatches, type FoundMatches, newMatches } from './matches.ts';
import { addressForm, type TextMatches } from './text-matches.ts';

/**
 * The packets that the lines of a Service's `.nft` file can match, by family, read from the text without resolving it. Each element names
 * a frontend; packets to other ports of a ClusterIP are rejected because of it.
 */
export function nftMatches(text: string): Readonly<Record<Family, FileMatches>> {
  const found = { ipv4: newMatches(), ipv6: newMatches() };
  for (const line of virtualLines(text)) {
    // Nearly half of the lines are about endpoints as clients of themselves, which matches no destination.
    if (line.startsWith('add element inet sluice loop')) continue;
    const read = readNftLine(line);
    // Linking reports lines that cannot be read.
    if ('error' in read) continue;
    for (const element of read.elements) addElement(element, read.family, found[read.family]);
  }
  return found;
}

function addElement(element: NftElement, family: Family, { exact, ports, targets, bound }: FoundMatches): void {
  if (element.kind === 'cluster') bound.add(element.address);
  if (!('key' in element)) return;
  const { protocol, address, port } = readFrontendKey(element.key);
  if (address === anyAddress[family]) ports.add(`${protocol} ${port}`);
  else exact.add(`${protocol} ${address} ${port}`);
  if (element.kind !== 'endpoint' && element.kind !== 'local') return;
  const [target, targetPort] = element.endpoint.split(' . ');
  targets.add(`${protocol} ${target} ${targetPort}`).add(`${protocol} ${targetPort}`);
}

const nodePortForm = /(?<=[ {])(?:0\.0\.0\.0|::) \. (?:tcp|udp|sctp) \. (\d+)/g;

/** What an `.nft` file matches: a superset of `nftMatches`. */
export function nftTextMatches(text: string): TextMatches {
  const ports = [...text.matchAll(nodePortForm)].map(([, port]) => Number(port));
  return { isWide: false, addresses: text.match(addressForm) ?? [], ports };
}
