import { type Child, type Command, type Run, type Started, startOptions, type ToolResult, whyExit } from './command.ts';
import { closeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { limits } from '../limits.ts';
import { ChildTime, WorkCost } from './processor-time.ts';
import { namelessWith } from './whole-text.ts';

/**
 * Runs tools as children of this process.
 * @param lockFd an open file whose lock the children share, so that a successor of this process waits for them: a child outlives its
 * parent's `kill -9` and commits later
 * @param started called with every child; its result is called with the child's exit code
 */
export function runChildren(lockFd?: number, started?: Started): Run {
  const once = async (command: Command): Promise<ToolResult & { readonly code: string | undefined }> => {
    const { timeoutMs = limits.commandTimeoutMs, onOutput } = command;
    const file = isFilledFirst(command) ? namelessWith(command.input) : undefined;
    const [starting, time] = [new WorkCost(), new ChildTime()];
    const child = starting.own(() => start(command, lockFd, timeoutMs, file));
    if (file !== undefined) closeSync(file);
    child.nodeChildProcess.once('exit', () => {
      const toolMs = time.end();
      command.onUsed?.(starting.usedMs + toolMs);
    });
    const ended = child.pid === undefined ? undefined : started?.(child.pid, command);
    if (onOutput) child.stdout?.setEncoding('utf8').on('data', onOutput);
    const result = await child;
    const hasRest = result.exitCode === 0 && child.stdin?.writableFinished === false;
    const exitCode = (result.failed || hasRest) && result.exitCode === 0 ? undefined : result.exitCode;
    ended?.(exitCode);
    const printed = { stdout: textOf(result.stdout), stderr: textOf(result.stderr) };
    const lost = exitCode === undefined ? lostBy(result) : undefined;
    return {
      exitCode,
      ...printed,
      ...(lost === undefined ? {} : { lost }),
      why: hasRest && !result.failed ? notRead : whyFailed(result, exitCode),
      code: child.pid === undefined ? result.code : undefined,
    };
  };
  return async (command) => {
    for (let attempt = 1; ; attempt++) {
      const { code, ...ran } = await once(command);
      const mayStart = isShort(code) && typeof command.input !== 'object' && attempt < limits.startAttemptsMax;
      if (!mayStart) return ran;
      await sleep(limits.startPauseMs);
    }
  };
}

const textOf = (output: unknown): string => (typeof output === 'string' ? output : '');

const notRead = 'the tool ended before it had read its input';

/** A shorter text fits into the pipe: it is there when the tool starts to read, and not sent in parts. */
const isFilledFirst = (command: Command): command is Command & { readonly input: string } =>
  command.isOneText === true && typeof command.input === 'string' && command.input.length > limits.pipeBytesMax;

/** @param whole a file with all of the input */
function start(command: Command, lockFd: number | undefined, timeout: number, whole?: number): Child {
  const { file, args, input, outputBytesMax, onOutput, isSilent = false, signal } = command;
  const isWhole = typeof input === 'string' && whole === undefined;
  // An array would be taken for a list of files.
  const stdin = whole ?? (input === undefined ? 'ignore' : typeof input === 'string' ? 'pipe' : partsOf(input));
  const { stdio, ...options } = startOptions(lockFd, stdin);
  const [, stdout, ...others] = stdio;
  return execa(file, args, {
    ...options,
    // The types do not know that it may be an open file.
    stdio: [stdin as Exclude<typeof stdin, number>, isSilent ? 'ignore' : stdout, ...others],
    timeout,
    ...(outputBytesMax === undefined ? {} : { maxBuffer: outputBytesMax }),
    buffer: { stdout: onOutput === undefined },
    ...(isWhole ? { input } : {}),
    ...(signal === undefined ? {} : { cancelSignal: signal }),
  });
}

/** The machine is short of something right now; nothing was started, and the input is unread. */
const isShort = (code: string | undefined): boolean =>
  code !== undefined && ['EAGAIN', 'ENOMEM', 'EMFILE', 'ENFILE'].includes(code);

async function* partsOf(input: Iterable<string> | AsyncIterable<string>): AsyncIterable<string> {
  yield* input;
}

/** Why a run has no exit code. */
function lostBy({ timedOut, code }: Awaited<Child>): NonNullable<ToolResult['lost']> {
  if (timedOut === true) return 'hung';
  if (isShort(code) || code === 'ENOSPC') return 'short';
  if (code === 'ERR_CHILD_PROCESS_STDIO_MAXBUFFER') return 'garbled';
  // Of the start: `ENOENT`, `EACCES`. A tool that did not read its input leaves EPIPE.
  return code !== undefined && /^E[A-Z]+$/.test(code) && code !== 'EPIPE' ? 'missing' : 'killed';
}

function whyFailed(result: Awaited<Child>, exitCode: number | undefined): string {
  if (!result.failed) return '';
  if (result.timedOut === true) return 'timed out';
  if (exitCode === undefined)
    return result.originalMessage ?? `the tool was killed${result.signal ? ` by ${result.signal}` : ''}`;
  return whyExit(exitCode, textOf(result.stderr));
}
