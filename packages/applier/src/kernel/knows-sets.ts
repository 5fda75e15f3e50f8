import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../limits.ts';
import { KernelError } from '../rollout/ports.ts';
import type { Ran, Run } from './run.ts';
import type { FamilyTools } from './tools.ts';

/** A name is this with the number of the process that asks: what another one does to its set must not look like a no. */
const probeSet = 'SLUICE-PROBE';

/**
 * What tools say when the kernel has no sets, or no rules that ask them. Anything else that fails says nothing of that: a lock that
 * somebody holds, a set that somebody removed, too little memory.
 */
const isMissing =
  /set type (does )?not supported|ipset protocol error|protocol versions|Cannot open session to kernel|Kernel error received: (Invalid argument|Operation not supported)|Couldn't (load|find) match|No chain\/target\/match by that name|xt_set is not loaded|missing kernel module/;

/** Whether words of a tool are such. */
export function saysMissing(words: string): boolean {
  return isMissing.test(words);
}

/** Whether a tool that failed has said that the kernel cannot do it, now or later. */
export function isDefinite({ exitCode, stderr }: Ran): boolean {
  return exitCode !== undefined && saysMissing(stderr);
}

/**
 * Whether the kernel lets rules ask sets, found out on the node itself without a change that a packet meets: a set that no rule names
 * is there for as long as the question takes.
 * @param pid of this process
 * @throws KernelError when the kernel does not say, however often it is asked
 */
export async function knowsSets(tools: FamilyTools, ipset: string, run: Run, pid = process.pid): Promise<boolean> {
  await removeLeft(ipset, run);
  let why = '';
  for (let attempt = 1; attempt <= limits.switchQuestionsMax; attempt++) {
    const answer = await ask(tools, ipset, `${probeSet}-${pid}`, run);
    if (typeof answer === 'boolean') return answer;
    why = answer.unsure;
    if (attempt < limits.switchQuestionsMax) await sleep(limits.startPauseMs);
  }
  throw new KernelError(`${tools.iptables} to find out whether rules may ask sets`, why);
}

type Answer = boolean | { readonly unsure: string };

/** Asks for a rule that is not there. The tool says so only after the kernel has said that it knows the match. */
async function ask({ iptables }: FamilyTools, ipset: string, set: string, run: Run): Promise<Answer> {
  const made = await run({ file: ipset, args: ['create', set, 'list:set', 'timeout', '30', '-exist'] });
  if (made.exitCode !== 0) return isDefinite(made) ? false : { unsure: made.why };
  const rule = ['OUTPUT', '-m', 'set', '--match-set', set, 'src', '-j', 'ACCEPT'];
  const asked = await run({ file: iptables, args: ['-w', String(limits.xtablesLockSeconds), '-C', ...rule] });
  await run({ file: ipset, args: ['destroy', set] });
  // First: nf_tables warns of a match that the kernel lacks, and says then that there is no such rule.
  if (isDefinite(asked)) return false;
  return asked.exitCode !== undefined && asked.stderr.includes('Bad rule') ? true : { unsure: asked.why };
}

/** Processes that were killed left theirs. A process that lives and lost its set all the same asks again. */
async function removeLeft(ipset: string, run: Run): Promise<void> {
  const { exitCode, stdout } = await run({ file: ipset, args: ['list', '-n'] });
  if (exitCode !== 0) return;
  for (const name of stdout.split('\n')) {
    const [, pid] = /^SLUICE-PROBE(?:-(\d{1,10}))?$/.exec(name) ?? [undefined, 'none'];
    if (pid === undefined || (pid !== 'none' && !isAlive(Number(pid))))
      await run({ file: ipset, args: ['destroy', name] });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH');
  }
}
