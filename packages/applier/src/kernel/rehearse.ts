import { printProgram } from '@sluice/bundle';
import { printStaged } from '../rollout/stages.ts';
import { KernelError } from '../rollout/ports.ts';
import { familiesOf, type NodeState } from '../rollout/state.ts';
import { limits } from '../limits.ts';
import type { Run } from './run.ts';
import { findTool, type Tools } from './tools.ts';

/**
 * Loads the rules of a state for real into a network namespace that ends with the command. It has its own /run, so that the
 * xtables lock is not shared with the node's tools, and no packet.
 */
export async function rehearse(state: NodeState, tools: Tools, run: Run): Promise<void> {
  for (const family of familiesOf(state)) {
    const program = state.families[family];
    const restore = tools.families[family]?.restore;
    if (!program || restore === undefined) continue;
    const text = tools.backend === 'nft' ? printStaged(program, limits.chainsPerPayloadMax) : printProgram(program);
    const args = [restore, '--noflush', '-w', String(limits.xtablesLockSeconds)];
    await inScratchNamespace(`${restore} in a scratch namespace`, args, text, run);
  }
}

/** Runs one command with a network and a /run of its own. Throws a `KernelError` when it does not end with 0. */
export async function inScratchNamespace(
  action: string,
  command: readonly string[],
  input: string,
  run: Run,
): Promise<void> {
  const unshare = findTool('unshare');
  const mount = findTool('mount');
  const shell = findTool('sh');
  if (unshare === undefined || mount === undefined || shell === undefined) {
    throw new KernelError(action, 'the node has no unshare, mount or sh (packages util-linux and dash)');
  }
  const script = `${mount} -t tmpfs tmpfs /run && exec "$@"`;
  const args = ['--net', '--mount', '--', shell, '-c', script, shell, ...command];
  const ran = await run({ file: unshare, args, input });
  if (ran.exitCode !== 0) throw new KernelError(action, ran.why);
}
