import { type Family, reflexiveBytecode } from '@sluice/netfilter';
import { limits } from '../limits.ts';
import { isDefinite, saysMissing } from './knows-sets.ts';
import type { Run } from './command.ts';
import type { FamilyTools, Tools } from './tools.ts';

/**
 * Whether rules can match a packet's own bytes (`xt_bpf`), which layout `tree` uses for pods that reach themselves. Checks for a rule that
 * does not exist, so nothing changes.
 * @returns false when a tool or the kernel says no. Other failures are no answer, and nearly every kernel has it: then true, and the
 * rehearsal finds rules that the kernel refuses
 */
export async function knowsBpf({ families }: Tools, run: Run): Promise<boolean> {
  for (const [family, tools] of Object.entries(families) as [Family, FamilyTools][])
    if (await lacksBpf(family, tools, run)) return false;
  return true;
}

async function lacksBpf(family: Family, { iptables }: FamilyTools, run: Run): Promise<boolean> {
  const rule = ['OUTPUT', '-m', 'bpf', '--bytecode', reflexiveBytecode[family], '-j', 'ACCEPT'];
  const checked = await run({ file: iptables, args: ['-w', String(limits.xtablesLockSeconds), '-C', ...rule] });
  // With nf_tables a missing match is a warning, before the rule is not found.
  return isDefinite(checked) || saysMissing(checked.stderr);
}
