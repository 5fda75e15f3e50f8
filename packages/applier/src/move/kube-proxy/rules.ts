import { KernelError } from '../../ports/failure.ts';
import { createHash } from 'node:crypto';
import type { Family } from '@sluice/netfilter';
import type { RulesElsewhere } from '../../ports/adoption.ts';
import { familyNames } from '../../ports/node-state.ts';
import type { Run } from '../../kernel/command.ts';
import { findTool, otherBackend, type RuleStore, savePath } from '../../kernel/tools.ts';

/**
 * What a kube-proxy has written outside of a rule store: into the other one, in mode iptables or ipvs, or into its tables of mode nftables.
 * @param backend the store of Sluice's rules
 * @throws KernelError where a tool was killed before it said anything: rules that appear with the next look would be taken for new ones
 */
export async function rulesElsewhere(backend: RuleStore, run: Run): Promise<RulesElsewhere> {
  const found: { [F in Family]?: string } = {};
  for (const family of familyNames) {
    const lines = [...(await chainsOf(family, otherBackend(backend), run)), ...(await tableOf(family, run))];
    if (lines.length > 0) found[family] = createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 16);
  }
  return found;
}

/** Its rules in a store; none before it has written them all: see `hasWritten`. */
async function chainsOf(family: Family, store: RuleStore, run: Run): Promise<readonly string[]> {
  const file = savePath(family, store);
  if (file === undefined) return [];
  const stdout = await printedBy(file, ['-t', 'nat'], run);
  return lastRule.test(stdout) ? stdout.split('\n').filter((line) => line.startsWith('-A KUBE-')) : [];
}

/** Its chains and rules of mode nftables, with the handles that the kernel gave them: a rule that is written again has another one. */
async function tableOf(family: Family, run: Run): Promise<readonly string[]> {
  const file = findTool('nft');
  if (file === undefined) return [];
  const name = { ipv4: 'ip', ipv6: 'ip6' }[family];
  const stdout = await printedBy(file, ['-a', 'list', 'table', name, 'kube-proxy'], run);
  return stdout.split('\n').flatMap((line) => (/ # handle \d+$/.test(line) ? [line.replace(counter, '')] : []));
}

/** What a tool prints; a store or a table that the kernel does not have is nothing, and the tool fails then. */
async function printedBy(file: string, args: readonly string[], run: Run): Promise<string> {
  const { exitCode, stdout, why } = await run({ file, args });
  if (exitCode === undefined) throw new KernelError(`${file} ${args.join(' ')}`, why, 'killed');
  return stdout;
}

const lastRule = /^-A KUBE-SERVICES .* -j KUBE-NODE(?:PORTS|-PORT)$/m;
const counter = / packets \d+ bytes \d+/;
