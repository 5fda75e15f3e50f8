import { type Family, reflexiveBytecode } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { isDefinite, saysMissing } from './knows-sets.ts';
import type { Run } from './run.ts';
import type { FamilyTools, Tools } from './tools.ts';

/**
 * Whether rules may ask for a packet's own bytes (`xt_bpf`), which layout `tree` does for pods that reach themselves. Asked for a rule
 * that is not there, so nothing changes.
 * @returns false when a tool or the kernel says no. What fails otherwise is no answer, and nearly every kernel has it: then true, and
 *   rules that the kernel does not take are found by the rehearsal
 */
export async function knowsBpf({ families }: Tools, run: Run): Promise<boolean> {
  for (const [family, tools] of Object.entries(families) as [Family, FamilyTools][])
    if (await lacksBpf(family, tools, run)) return false;
  return true;
}

async function lacksBpf(family: Family, { iptables }: FamilyTools, run: Run): Promise<boolean> {
  const rule = ['OUTPUT', '-m', 'bpf', '--bytecode', reflexiveBytecode[family], '-j', 'ACCEPT'];
  const asked = await run({ file: iptables, args: ['-w', String(limits.xtablesLockSeconds), '-C', ...rule] });
  // With nf_tables a match that the kernel lacks is told by a warning, before the rule is not found.
  return isDefinite(asked) || saysMissing(asked.stderr);
}
