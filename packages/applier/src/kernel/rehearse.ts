import { printCreate, printProgram } from '@sluice/bundle';
import { kindsOf } from '../ipvs/servers.ts';
import type { NodeIpvs } from '../ipvs/values.ts';
import { printStaged } from '../rollout/stages.ts';
import { KernelError } from '../rollout/ports.ts';
import { familiesOf, type NodeState } from '../rollout/state.ts';
import { limits } from '../limits.ts';
import type { Run } from './run.ts';
import { findTool, type Tools } from './tools.ts';

/**
 * Loads the rules of a state for real into a network namespace that ends with the command. It has its own /run, so that the
 * xtables lock is not shared with the node's tools, and no packet. In mode ipvs one of them takes virtual servers, too.
 */
export async function rehearse(state: NodeState, tools: Tools, run: Run): Promise<void> {
  let servers = state.ipvs ? sampleServers(state.ipvs) : '';
  for (const family of familiesOf(state)) {
    const program = state.families[family];
    const restore = tools.families[family]?.restore;
    if (!program || restore === undefined) continue;
    const text = tools.backend === 'nft' ? printStaged(program, limits.chainsPerPayloadMax) : printProgram(program);
    const args = [restore, '--noflush', '-w', String(limits.xtablesLockSeconds)];
    const command = state.ipvs ? behindServers(state.ipvs, servers, args) : args;
    await inScratchNamespace(`${restore} in a scratch namespace`, command, text, run);
    servers = '';
  }
}

/**
 * Creates the sets that rules ask, empty, for a namespace has sets of its own; and virtual servers. `ipvsadm` ends with 0 also when the
 * kernel refused a line, and then says so.
 */
const preparation = `set -e
printf %s "$1" | "$3" restore
said=$(printf %s "$2" | "$4" -R 2>&1) || said=\${said:-it failed}
[ -z "$said" ] || { echo "ipvsadm: $said" >&2; exit 1; }
shift 4
exec "$@"`;

/** The command behind one that prepares its namespace for mode ipvs. */
function behindServers({ sets }: NodeIpvs, servers: string, command: readonly string[]): readonly string[] {
  const creates = [...sets.values()].map((set) => `${printCreate(set)}\n`).join('');
  const shell = toolOf('sh');
  return [shell, '-c', preparation, shell, creates, servers, toolOf('ipset'), toolOf('ipvsadm'), ...command];
}

function toolOf(name: string): string {
  const tool = findTool(name);
  if (tool === undefined) throw new KernelError(`${name} in a scratch namespace`, 'it is not installed');
  return tool;
}

/** One virtual server for each kind that there is. */
function sampleServers(ipvs: NodeIpvs): string {
  const lines = [...kindsOf(ipvs)].map((kind, index) => {
    const isIPv6 = kind.includes('-M 128');
    return `-A -t ${isIPv6 ? '[2001:db8::1]' : '198.51.100.1'}:${index + 1}${kind}\n`;
  });
  return lines.join('');
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
