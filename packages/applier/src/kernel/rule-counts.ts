import { failed } from './failure.ts';
import { addAll } from '@sluice/netfilter';
import { RuleCountReader, type RuleCount } from '../apply/counts/rule-counts.ts';
import type { Run } from './command.ts';
import type { Tools } from './tools.ts';

/**
 * Reads the counters of the rules that translate to endpoints, of both families: one walk over table nat each.
 * @throws KernelError when a tool fails
 */
export async function readRuleCounts({ families }: Tools, run: Run): Promise<readonly RuleCount[]> {
  const found: RuleCount[] = [];
  for (const tools of Object.values(families)) {
    if (!tools) continue;
    const reader = new RuleCountReader();
    const command = { file: tools.save, args: ['-c', '-t', 'nat'], onOutput: (part: string) => reader.take(part) };
    const ran = await run(command);
    if (ran.exitCode !== 0) throw failed(`${tools.save} -c -t nat`, ran);
    addAll(found, reader.done());
  }
  return found;
}
