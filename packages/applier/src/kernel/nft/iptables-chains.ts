import type { Family, TableName } from '@sluice/netfilter';
import type { Run } from '../command.ts';
import { findTool } from '../tools.ts';

/**
 * The names of all chains in a table of iptables-nft, as nft lists them: for tables that iptables cannot print.
 * @returns undefined where nft is missing or fails
 */
export async function iptablesChains(
  family: Family,
  table: TableName,
  run: Run,
): Promise<readonly string[] | undefined> {
  const nft = findTool('nft');
  if (nft === undefined) return undefined;
  const own = family === 'ipv4' ? 'ip' : 'ip6';
  const { exitCode, stdout } = await run({ file: nft, args: ['list', 'chains', own] });
  return exitCode === 0 ? readChains(stdout, `${own} ${table}`) : undefined;
}

/** Reads the output of `nft list chains`. @param table as nft names it, such as `ip filter` */
export function readChains(text: string, table: string): readonly string[] {
  const names: string[] = [];
  let isOwn = false;
  for (const line of text.split('\n')) {
    if (line.startsWith('table ')) isOwn = line === `table ${table} {`;
    const name = isOwn ? /^\s+chain (\S+) \{/.exec(line)?.[1] : undefined;
    if (name !== undefined) names.push(name);
  }
  return names;
}
