import { printAttributes, printCreate, printProgram } from '@sluice/bundle';
import type { NodeIpvs } from '../ipvs/values.ts';
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
    await inScratchNamespace(`${restore} in a scratch namespace`, await withSets(state, args), text, run);
  }
  if (state.ipvs) await rehearseServers(state.ipvs, run);
}

/** The command behind one that creates the sets that rules ask, empty: a namespace has sets of its own. */
async function withSets({ ipvs }: NodeState, command: readonly string[]): Promise<readonly string[]> {
  const ipset = findTool('ipset');
  if (!ipvs || ipset === undefined) return command;
  const creates = [...ipvs.sets.values()].map((set) => `${printCreate(set)}\n`).join('');
  const shell = findTool('sh') ?? 'sh';
  return [shell, '-c', `printf %s "$1" | ${ipset} restore && shift && exec "$@"`, shell, creates, ...command];
}

/** One virtual server for each kind that there is: the kernel must have their schedulers and flags. */
async function rehearseServers({ virtualServers }: NodeIpvs, run: Run): Promise<void> {
  const ipvsadm = findTool('ipvsadm');
  if (ipvsadm === undefined) throw new KernelError('ipvsadm in a scratch namespace', 'it is not installed');
  const kinds = new Set([...virtualServers.values()].map(printAttributes));
  const text = [...kinds].map((kind, index) => {
    const isIPv6 = kind.includes('-M 128');
    return `-A -t ${isIPv6 ? '[2001:db8::1]' : '198.51.100.1'}:${index + 1}${kind}\n`;
  });
  await inScratchNamespace('ipvsadm in a scratch namespace', [ipvsadm, '-R'], text.join(''), run, true);
}

/**
 * Runs one command with a network and a /run of its own. Throws a `KernelError` when it does not end with 0.
 * @param mustBeSilent for ipvsadm, which ends with 0 also when the kernel refused a line, and then says so
 */
export async function inScratchNamespace(
  action: string,
  command: readonly string[],
  input: string,
  run: Run,
  mustBeSilent = false,
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
  if (mustBeSilent && ran.stderr !== '') throw new KernelError(action, ran.stderr.trim().split('\n')[0] ?? '');
}
