import { switches } from '@sluice/bundle';
import { limits } from '../limits.ts';
import { RehearsalError, type Switch } from '../rollout/ports.ts';
import { inScratchNamespace } from './scratch/namespace.ts';
import type { Run } from './run.ts';
import { LinuxSwitch } from './switch.ts';
import { type FamilyTools, findTool, type Tools } from './tools.ts';

/**
 * The switch of this machine, where it has ipset and its rules can ask sets (`xt_set`).
 * @param inNamespace whether namespaces may be made: then a rule is loaded for real. Otherwise, and where none can be made, the kernel is
 *   asked whether it knows the match
 */
export async function findSwitch(tools: Tools, run: Run, inNamespace: boolean): Promise<Switch | undefined> {
  const ipset = findTool('ipset');
  if (ipset === undefined) return undefined;
  const works = inNamespace ? loads : isKnown;
  for (const family of Object.values(tools.families)) {
    if (!(await works(family, ipset, run))) return undefined;
  }
  return new LinuxSwitch(ipset, run);
}

async function loads(tools: FamilyTools, ipset: string, run: Run): Promise<boolean> {
  const shell = findTool('sh') ?? 'sh';
  const script = `echo 'create ${switches.filter} list:set timeout 30' | ${ipset} restore && exec "$@"`;
  const text = `*filter\n-A OUTPUT -m set --match-set ${switches.filter} src -j ACCEPT\nCOMMIT\n`;
  const { restore } = tools;
  const load = [shell, '-c', script, shell, restore, '--noflush', '-w', String(limits.xtablesLockSeconds)];
  try {
    await inScratchNamespace('ipset and -m set in a scratch namespace', load, text, run);
    return true;
  } catch (error) {
    return error instanceof RehearsalError ? isKnown(tools, ipset, run) : false;
  }
}

/** A set of the node's own that no rule names, for as long as the question takes. */
const probeSet = 'SLUICE-PROBE';

/** Asks for a rule that is not there. The tool says so only after the kernel has said that it knows the match. */
async function isKnown({ iptables }: FamilyTools, ipset: string, run: Run): Promise<boolean> {
  const made = await run({ file: ipset, args: ['create', probeSet, 'list:set', 'timeout', '30', '-exist'] });
  if (made.exitCode !== 0) return false;
  const rule = ['OUTPUT', '-m', 'set', '--match-set', probeSet, 'src', '-j', 'ACCEPT'];
  const asked = await run({ file: iptables, args: ['-w', String(limits.xtablesLockSeconds), '-C', ...rule] });
  await run({ file: ipset, args: ['destroy', probeSet] });
  return asked.stderr.includes('Bad rule');
}
