import { type FailureKind, KernelError } from '../ports/failure.ts';
import { kindOf } from './failure.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../limits.ts';
import type { ToolResult, Run } from './command.ts';
import type { FamilyTools } from './tools.ts';

/** The name has the pid of the process appended: another process must not remove our set, which would look like a no. */
const probeSet = 'SLUICE-PROBE';

/**
 * Errors of tools when the kernel has no sets, or no rules that match them. Other errors do not mean that: a lock that another process
 * holds, a set that it removed, too little memory.
 */
const isMissing =
  /set type (does )?not supported|ipset protocol error|protocol versions|Cannot open session to kernel|Kernel error received: (Invalid argument|Operation not supported)|Couldn't (load|find) match|No chain\/target\/match by that name|xt_set is not loaded|missing kernel module/;

/** Whether a tool's output has such an error. */
export function saysMissing(words: string): boolean {
  return isMissing.test(words);
}

/** Whether a failed tool has said that the kernel cannot do it, now or later. */
export function isDefinite({ exitCode, stderr }: ToolResult): boolean {
  return exitCode !== undefined && saysMissing(stderr);
}

/**
 * Whether the kernel's rules can match sets, found out on the node itself without a change that affects packets: a set that no rule names
 * exists for a moment.
 * @param pid of this process
 * @throws KernelError when the kernel gives no clear answer in all attempts
 */
export async function knowsSets(tools: FamilyTools, ipset: string, run: Run, pid = process.pid): Promise<boolean> {
  await removeLeft(ipset, run);
  let why = '';
  let kind: FailureKind = 'garbled';
  for (let attempt = 1; attempt <= limits.switchQuestionsMax; attempt++) {
    const answer = await ask(tools, ipset, `${probeSet}-${pid}`, run);
    if (typeof answer === 'boolean') return answer;
    ({ unsure: why, kind } = answer);
    if (attempt < limits.switchQuestionsMax) await sleep(limits.startPauseMs);
  }
  throw new KernelError(`${tools.iptables} to find out whether rules may ask sets`, why, kind);
}

type SetsAnswer = boolean | { readonly unsure: string; readonly kind: FailureKind };

/** Checks for a rule that does not exist. The tool says so only after the kernel has said that it knows the match. */
async function ask({ iptables }: FamilyTools, ipset: string, set: string, run: Run): Promise<SetsAnswer> {
  const made = await run({ file: ipset, args: ['create', set, 'list:set', 'timeout', '30', '-exist'] });
  if (made.exitCode !== 0) return isDefinite(made) ? false : { unsure: made.why, kind: kindOf(made) };
  const rule = ['OUTPUT', '-m', 'set', '--match-set', set, 'src', '-j', 'ACCEPT'];
  const checked = await run({ file: iptables, args: ['-w', String(limits.xtablesLockSeconds), '-C', ...rule] });
  await run({ file: ipset, args: ['destroy', set] });
  // First: nf_tables warns of a missing match, and then says that there is no such rule.
  if (isDefinite(checked)) return false;
  return checked.exitCode !== undefined && checked.stderr.includes('Bad rule')
    ? true
    : { unsure: checked.why, kind: kindOf(checked) };
}

/** Removes the sets of killed processes. A live process that loses its set tries again. */
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
