import { virtualLines } from '@sluice/bundle';
import { anyAddress, type Family, type NftElement, readFrontendKey, readNftLine } from '@sluice/netfilter';
import type { FileMatches } from './matches.ts';
import type { TextMatches } from './text-matches.ts';

/**
 * The packets that the lines of a Service's `.nft` file can match, by family, read from the text without resolving it. Each element names
 * a frontend; packets to other ports of a ClusterIP are rejected because of it.
 */
export function nftMatches(text: string): Readonly<Record<Family, FileMatches>> {
  const found: Partial<Record<Family, LineMatches>> = {};
  for (const line of virtualLines(text)) {
    // Nearly half of the lines are about endpoints as clients of themselves, which matches no destination.
    if (line.startsWith('add element inet sluice loop')) continue;
    const read = readNftLine(line);
    // Linking reports lines that cannot be read.
    if ('error' in read) continue;
    const ofFamily = (found[read.family] ??= new LineMatches());
    for (const element of read.elements) ofFamily.add(element, read.family);
  }
  return { ipv4: found.ipv4 ?? nothing, ipv6: found.ipv6 ?? nothing };
}

class LineMatches implements FileMatches {
  readonly exact = new Set<string>();
  readonly ports = new Set<string>();
  readonly targets = new Set<string>();
  readonly bound = new Set<string>();
  readonly inner: ReadonlySet<string> = noPackets;
  readonly wide: FileMatches['wide'] = [];

  add(element: NftElement, family: Family): void {
    if (element.kind === 'cluster') this.bound.add(element.address);
    if (!('key' in element)) return;
    const { protocol, address, port } = readFrontendKey(element.key);
    if (address === anyAddress[family]) this.ports.add(`${protocol} ${port}`);
    else this.exact.add(`${protocol} ${address} ${port}`);
    if (element.kind !== 'endpoint' && element.kind !== 'local') return;
    const [target, targetPort] = element.endpoint.split(' . ');
    this.targets.add(`${protocol} ${target} ${targetPort}`).add(`${protocol} ${targetPort}`);
  }
}

const noPackets: ReadonlySet<string> = new Set();
const nothing: FileMatches = {
  exact: noPackets,
  ports: noPackets,
  targets: noPackets,
  bound: noPackets,
  inner: noPackets,
  wide: [],
};

const addressForm = /(?:\d+\.){3}\d+|[0-9a-f]*:[0-9a-f:]+/g;
const nodePortForm = /(?<=[ {])(?:0\.0\.0\.0|::) \. (?:tcp|udp|sctp) \. (\d+)/g;

/** What an `.nft` file matches: a superset of `nftMatches`. */
export function nftTextMatches(text: string): TextMatches {
  const ports = [...text.matchAll(nodePortForm)].map(([, port]) => Number(port));
  return { isWide: false, addresses: text.match(addressForm) ?? [], ports };
}
