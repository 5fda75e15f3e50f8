import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { type ToolResult, toolEnvironment } from '../../kernel/command.ts';
import { limits } from '../../limits.ts';

/** Runs the command of a probe. Without an exit code, `why` has the reason. */
export type RunGroup = (file: string, args: readonly string[], timeoutMs: number) => Promise<ToolResult>;

/** Process groups of running commands, which this process kills when it ends. */
const running = new Set<number>();
const endAll = (): void => {
  for (const group of running) killGroup(group);
};
process.on('exit', endAll);

/** Signals that end a process without a listener; a terminal sends them to its own group only. */
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** With another listener, that one decides what the signal does. */
function onSignal(signal: (typeof signals)[number]): void {
  if (process.listenerCount(signal) > 1) return;
  endAll();
  process.removeListener(signal, onSignal);
  process.kill(process.pid, signal);
}

function begin(group: number): void {
  if (running.size === 0) for (const signal of signals) process.on(signal, onSignal);
  running.add(group);
}

function end(group: number): void {
  running.delete(group);
  if (running.size === 0) for (const signal of signals) process.removeListener(signal, onSignal);
}

/**
 * Runs a command in its own process group, until it ends or the timeout. Then the group is killed, with all that the command started: a
 * killed shell would leave its `curl` behind, holding the output open. The command does not inherit the lock: a process that left the group
 * must not lock out the next sluiced.
 */
export const runGroup: RunGroup = async (file, args, timeoutMs) => {
  for (let attempt = 1; ; attempt++) {
    const { isShort, ...ran } = await once(file, args, timeoutMs);
    if (!isShort || attempt === limits.startAttemptsMax) return ran;
    await sleep(limits.startPauseMs);
  }
};

/** @returns `isShort`: it was not started because the machine is short of memory, processes or files */
async function once(
  file: string,
  args: readonly string[],
  timeoutMs: number,
): Promise<ToolResult & { isShort: boolean }> {
  const child = execa(file, args, {
    env: toolEnvironment,
    extendEnv: false,
    reject: false,
    stripFinalNewline: false,
    maxBuffer: limits.probeOutputBytesMax,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const { pid } = child;
  let isLate = false;
  if (pid !== undefined) {
    begin(pid);
    const timer = setTimeout(() => {
      isLate = true;
      killGroup(pid);
    }, timeoutMs);
    child.nodeChildProcess.once('exit', () => {
      clearTimeout(timer);
      killGroup(pid);
      end(pid);
      setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
      }, limits.probeLeftoversMs);
    });
  }
  const { failed, exitCode, stdout, stderr, originalMessage, code } = await child;
  return {
    exitCode: failed && exitCode === 0 ? undefined : exitCode,
    stdout,
    stderr,
    why: isLate ? 'timed out' : (originalMessage ?? 'the command was killed'),
    isShort: pid === undefined && ['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE'].includes(code ?? ''),
  };
}

/** @param group the id of its first process */
function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // The group has ended already.
  }
}
