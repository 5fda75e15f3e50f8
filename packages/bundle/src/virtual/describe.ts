import {
  type DescribedFrontend,
  type Family,
  nftFamily,
  onAllNodes,
  planeOf,
  type ServiceLines,
  type TableName,
} from '@sluice/netfilter';
import type { RuleFile } from '../rulefile.ts';

/** The frontends of a file of rules of a Service, over all nodes. */
export function describeRules(family: Family, { sections }: Pick<RuleFile, 'sections'>): readonly DescribedFrontend[] {
  const of = (table: TableName): readonly string[] =>
    sections.flatMap((section) => (section.table === table ? section.rules.map(({ text }) => text) : []));
  return describe(family, { mode: 'iptables', rules: { filter: of('filter'), nat: of('nat') } });
}

/**
 * The frontends of an `.ipvs` or `.nft` file of a Service, over all nodes.
 * @param path of the file
 * @param ipset the text of the `.ipset` beside it, which gives each frontend its kind and source ranges
 */
export function describeLines(family: Family, path: string, text: string, ipset = ''): readonly DescribedFrontend[] {
  if (path.endsWith('.nft'))
    return describe(family, { mode: 'nftables', nft: virtualLines(text).filter((line) => nftFamily(line) === family) });
  return describe(family, { mode: 'ipvs', ipset: virtualLines(ipset), ipvs: virtualLines(text) });
}

function describe(family: Family, lines: ServiceLines): readonly DescribedFrontend[] {
  const state = onAllNodes(family, lines);
  return planeOf(state).read(state).describe(family);
}

/** The lines of an `.ipset`, `.ipvs` or `.nft` file without guards, comments left out. */
export const virtualLines = (text: string): readonly string[] =>
  text.split('\n').flatMap((line) => (line === '' || line.startsWith('#') ? [] : withoutGuard(line)));

/** A line of a file without its guard. */
export function withoutGuard(line: string): string {
  return line.startsWith('@') ? line.slice(line.indexOf(' ') + 1) : line;
}
