import { failed } from '../failure.ts';
import type { Run } from '../command.ts';
import { findTool } from '../tools.ts';

/** The tables of a kube-proxy in mode nftables: pkg/proxy/nftables/proxier.go. */
const families = ['ip', 'ip6'] as const;

/** The families of `nft` in which there is a table of kube-proxy; none without the tool. */
export async function proxyTables(run: Run): Promise<readonly (typeof families)[number][]> {
  const nft = findTool('nft');
  if (nft === undefined) return [];
  const { stdout } = await run({ file: nft, args: ['list', 'tables'] });
  return families.filter((family) => stdout.split('\n').includes(`table ${family} kube-proxy`));
}

/**
 * Removes them, each in one transaction.
 * @returns their number
 * @throws KernelError
 */
export async function removeProxyTables(run: Run): Promise<number> {
  const tables = await proxyTables(run);
  for (const family of tables) {
    const action = `nft delete table ${family} kube-proxy`;
    const ran = await run({ file: findTool('nft') ?? '', args: action.split(' ').slice(1) });
    if (ran.exitCode !== 0) throw failed(action, ran);
  }
  return tables.length;
}
