import type { SluicedConfig } from '../../config.ts';
import { findSwitch } from '../../kernel/linux/find-switch.ts';
import { knowsBpf } from '../../kernel/knows-bpf.ts';
import type { Run } from '../../kernel/command.ts';
import { placeOf } from '../../kernel/scratch/rehearse.ts';
import { detectTools, findTool, type Tools } from '../../kernel/tools.ts';

/** What a session found when it was opened. It works with that until it is closed. */
interface FoundTools {
  readonly tools: Tools;
  readonly hasNft: boolean;
  readonly hasSwitch: boolean;
  readonly hasLostBpf: boolean;
}

/**
 * Whether the machine has more now than a session found: tools of a family, nft, sets, xt_bpf. What is away for a moment, as while a package
 * is upgraded, must not be missing until an operator restarts the daemon. Starts tools only where something lacked.
 * @throws KernelError when a tool answers nothing definite
 */
export async function gained(
  found: FoundTools,
  { rehearse }: Pick<SluicedConfig, 'rehearse'>,
  run: Run,
): Promise<boolean> {
  const { tools, hasNft, hasSwitch, hasLostBpf } = found;
  if (!hasNft && findTool('nft') !== undefined) return true;
  const families = Object.keys(tools.families).length;
  if (families === 2 && hasSwitch && !hasLostBpf) return false;
  const now = await detectTools(tools.backend, run);
  if (Object.keys(now.families).length > families) return true;
  if (!hasSwitch && (await findSwitch(now, run, placeOf(rehearse) === 'namespace')) !== undefined) return true;
  return hasLostBpf && (await knowsBpf(now, run));
}
