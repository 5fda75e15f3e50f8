import { virtualLines } from '@sluice/bundle';
import {
  anyAddress,
  type BundleTool,
  type Family,
  type NftElement,
  readFrontendKey,
  readNftLine,
} from '@sluice/netfilter';
import { type FileMatches, type FoundMatches, newMatches, ruleMatches } from './matches.ts';
import { addressForm, lineTextMatches, ruleTextMatches, type TextMatches } from './text-matches.ts';
import { virtualMatches } from './virtual-matches.ts';

/** The packets that the text of a file can match. */
interface MatchReader {
  /** Exactly, in one family; and in the other one, where a file is read for both at once. */
  readonly whole: (text: string, family: Family) => { readonly matches: FileMatches; readonly other?: FileMatches };
  /** A superset, without parsing lines. */
  readonly fast: (text: string) => TextMatches;
}

/** By the tool of a file. */
export const matchReaders: Readonly<Record<BundleTool, MatchReader>> = {
  iptables: { whole: (text, family) => ({ matches: ruleMatches(text, family) }), fast: ruleTextMatches },
  ip6tables: { whole: (text, family) => ({ matches: ruleMatches(text, family) }), fast: ruleTextMatches },
  ipset: { whole: (text, family) => ({ matches: virtualMatches('ipset', text, family) }), fast: lineTextMatches },
  ipvs: { whole: (text, family) => ({ matches: virtualMatches('ipvs', text, family) }), fast: lineTextMatches },
  nft: { whole: nftMatches, fast: nftTextMatches },
};

export const otherFamily = { ipv4: 'ipv6', ipv6: 'ipv4' } as const satisfies Record<Family, Family>;

/**
 * The packets that the lines of a Service's `.nft` file can match, read from the text without resolving it. Each element names a
 * frontend; packets to other ports of a ClusterIP are rejected because of it.
 */
function nftMatches(text: string, family: Family): { readonly matches: FileMatches; readonly other: FileMatches } {
  const found = { ipv4: newMatches(), ipv6: newMatches() };
  for (const line of virtualLines(text)) {
    // Nearly half of the lines are about endpoints as clients of themselves, which matches no destination.
    if (line.startsWith('add element inet sluice loop')) continue;
    const read = readNftLine(line);
    // Linking reports lines that cannot be read.
    if ('error' in read) continue;
    for (const element of read.elements) addElement(element, read.family, found[read.family]);
  }
  return { matches: found[family], other: found[otherFamily[family]] };
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
function nftTextMatches(text: string): TextMatches {
  const ports = [...text.matchAll(nodePortForm)].map(([, port]) => Number(port));
  return { isWide: false, addresses: text.match(addressForm) ?? [], ports };
}
