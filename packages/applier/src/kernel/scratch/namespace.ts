import { kindOf } from '../failure.ts';
import { isAnswer, KernelError, RehearsalError } from '../../ports/failure.ts';
import { limits } from '../../limits.ts';
import type { Command, Run } from '../command.ts';
import { findTool, type Tools } from '../tools.ts';
import type { RehearsalLoad } from './load.ts';

/**
 * Loads rules for real into a network namespace that ends with the command. It has its own /run, so that the xtables lock is not shared
 * with the node's tools, and no packets. In mode ipvs the first family also loads virtual servers.
 * @throws KernelError when they are refused
 * @throws RehearsalError when no namespace can be made, or a tool does not finish
 */
export async function rehearseInNamespace(load: RehearsalLoad, tools: Tools, run: Run): Promise<void> {
  let { servers } = load;
  for (const [family, text] of load.rules) {
    const restore = tools.families[family]?.restore;
    if (restore === undefined) continue;
    const args = [restore, '--noflush', '-w', String(limits.xtablesLockSeconds)];
    const command = load.sets + load.servers === '' ? args : behindServers(load.sets, servers, args);
    await inScratchNamespace(`${restore} in a scratch namespace`, command, text, run);
    servers = '';
  }
  if (load.nft !== '')
    await inScratchNamespace('nft in a scratch namespace', [toolOf('nft'), '-f', '-'], load.nft, run);
}

/** `ipvsadm` exits with 0 although the kernel refused a line, but then prints why. */
const preparation = `set -e
printf %s "$1" | "$3" restore
said=$(printf %s "$2" | "$4" -R 2>&1) || said=\${said:-it failed}
[ -z "$said" ] || { echo "ipvsadm: $said" >&2; exit 1; }
shift 4
exec "$@"`;

/** The command, after one that prepares its namespace for mode ipvs. */
function behindServers(sets: string, servers: string, command: readonly string[]): readonly string[] {
  const shell = toolOf('sh');
  return [shell, '-c', preparation, shell, sets, servers, toolOf('ipset'), toolOf('ipvsadm'), ...command];
}

function toolOf(name: string): string {
  const tool = findTool(name);
  if (tool === undefined) throw new RehearsalError(`${name} is not installed`, `Install ${name}`);
  return tool;
}

const elsewhere =
  'Start sluiced-rehearse.socket, which makes such a namespace (`systemctl enable --now sluiced-rehearse.socket`), or set `rehearse: off` in sluiced.yaml';

const again = 'Nothing was changed; sluiced tries again by itself. Look at the tool and at what the machine lacks';

/** The exit code of the script below without a /run; no tool of iptables, ipset or ipvs uses it. */
const noRun = 125;

/**
 * Runs one command with its own network and /run.
 * @throws KernelError for an exit code other than 0
 * @throws RehearsalError when no namespace can be made, or the command does not finish
 */
export async function inScratchNamespace(
  action: string,
  command: readonly string[],
  input: NonNullable<Command['input']>,
  run: Run,
): Promise<void> {
  const unshare = toolOf('unshare');
  const mount = toolOf('mount');
  const shell = toolOf('sh');
  const script = `${mount} -t tmpfs tmpfs /run || exit ${noRun}; exec "$@"`;
  const args = ['--net', '--mount', '--', shell, '-c', script, shell, ...command];
  const ran = await run({ file: unshare, args, input });
  if (ran.exitCode === 0) return;
  if (ran.exitCode === noRun || ran.stderr.startsWith('unshare: '))
    throw new RehearsalError(`${action}: ${ran.why}`, elsewhere);
  const kind = kindOf(ran);
  if (!isAnswer(kind)) throw new RehearsalError(`${action}: ${ran.why}`, again);
  throw new KernelError(action, ran.why, kind);
}
