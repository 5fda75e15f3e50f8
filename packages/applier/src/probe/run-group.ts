import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { type Ran, toolEnvironment } from '../kernel/run.ts';
import { limits } from '../limits.ts';

/** Runs the command of a probe. `why` counts where there is no exit code. */
export type RunGroup = (file: string, args: readonly string[], timeoutMs: number) => Promise<Ran>;

/** Groups of commands that run: nobody else ends them when this process ends. */
const running = new Set<number>();
const endAll = (): void => {
  for (const group of running) killGroup(group);
};
process.on('exit', endAll);

/** Signals that end a process which does not listen to them; a terminal's go to its own group alone. */
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Who else listens decides what a signal means. */
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
 * Runs a command in a process group of its own, and ends with the command or at the time-out, whatever it started: a shell that is killed
 * leaves its `curl` behind, which holds the output open, and so does a process in the background. What is left of the group is killed.
 * It gets no lock: what left the group must not keep a successor of this process out.
 */
export const runGroup: RunGroup = async (file, args, timeoutMs) => {
  for (let attempt = 1; ; attempt++) {
    const { isShort, ...ran } = await once(file, args, timeoutMs);
    if (!isShort || attempt === limits.startAttemptsMax) return ran;
    await sleep(limits.startPauseMs);
  }
};

/** @returns also whether nothing was started because the machine has too little of something right now */
async function once(file: string, args: readonly string[], timeoutMs: number): Promise<Ran & { isShort: boolean }> {
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
    why: isLate ? 'it did not end in time' : (originalMessage ?? 'it was killed'),
    isShort: pid === undefined && ['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE'].includes(code ?? ''),
  };
}

/** @param group the id of its first process */
function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // Nobody of it is left.
  }
}
