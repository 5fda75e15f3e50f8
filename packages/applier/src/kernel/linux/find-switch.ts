import { failed } from '../failure.ts';
import { KernelError, RehearsalError } from '../../ports/failure.ts';
import { switches } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { Switch } from '../../ports/kernel.ts';
import { isDefinite, knowsSets, saysMissing } from '../knows-sets.ts';
import type { Run } from '../command.ts';
import { inScratchNamespace } from '../scratch/namespace.ts';
import { LinuxSwitch } from '../switch.ts';
import { type FamilyTools, findTool, type Tools } from '../tools.ts';

/**
 * Finds the switch of this machine, where it has ipset and its rules can match sets (`xt_set`).
 * @param inNamespace whether namespaces can be made: then a rule is loaded for real. Otherwise, and where none can be made, the kernel is
 * asked whether it knows the match
 * @throws KernelError when that cannot be found out: without the switch there is no dead-man switch, so only a definite no counts
 */
export async function findSwitch(tools: Tools, run: Run, inNamespace: boolean): Promise<Switch | undefined> {
  const ipset = findTool('ipset');
  if (ipset === undefined) return undefined;
  const works = inNamespace ? loads : knowsSets;
  for (const family of Object.values(tools.families)) {
    if (!(await works(family, ipset, run))) return undefined;
  }
  return new LinuxSwitch(ipset, run);
}

/**
 * The same for a process that continues after another one: packets may follow a switch that it turned on. Where its sets are there, the
 * kernel knew them: a load that is refused, as while the kernel takes no rule of one family, is then not believed, and the node is asked.
 * @param wasUsed whether the journal has an open change that uses the switch
 * @throws KernelError when there is none, but one may be on
 */
export async function switchOf(
  tools: Tools,
  run: Run,
  inNamespace: boolean,
  wasUsed: boolean,
): Promise<Switch | undefined> {
  const ipset = findTool('ipset');
  const found = await findSwitch(tools, run, inNamespace);
  if (found) return found;
  const left = await setsLeft(ipset, run, wasUsed);
  if (ipset === undefined || left.length === 0) return undefined;
  for (const family of Object.values(tools.families)) {
    if (await knowsSets(family, ipset, run)) continue;
    const why = `${left.join(' and ')} are there, but the kernel says that rules cannot ask sets`;
    throw new KernelError(action, why, 'garbled');
  }
  return new LinuxSwitch(ipset, run);
}

const action = 'the switch between two programs';

/**
 * The sets of a switch that are in the kernel. A kernel with none has no rule that matches them, as after a boot.
 * @throws KernelError when that cannot be found out
 */
export async function setsLeft(ipset: string | undefined, run: Run, wasUsed: boolean): Promise<readonly string[]> {
  if (ipset === undefined) {
    if (wasUsed)
      throw new KernelError(action, 'a change by the switch is open, and ipset is not installed any more', 'missing');
    return [];
  }
  const listed = await run({ file: ipset, args: ['list', '-n'] });
  if (listed.exitCode !== 0 && !isDefinite(listed)) throw failed(`${ipset} list`, listed);
  const there = new Set(listed.stdout.split('\n'));
  return Object.values(switches).filter((name) => there.has(name));
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
    return isRefusal(error) ? false : knowsSets(tools, ipset, run);
  }
}

/** A tool that was killed, or lacked memory, says nothing about the kernel; a load that failed at its rule does. */
function isRefusal(error: unknown): boolean {
  const message = messageOf(error);
  const hasFailed = /RULE_APPEND failed|line \d+ failed/.test(message) && !message.includes('Cannot allocate memory');
  return saysMissing(message) || (hasFailed && !(error instanceof RehearsalError));
}
