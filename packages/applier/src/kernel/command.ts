import type { ChildProcess } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { FailureKind } from '../ports/failure.ts';
import { quoted } from '@sluice/bundle';
import { limits } from '../limits.ts';

/** One run of a tool. */
export interface Command {
  /** Absolute: PATH is not searched. */
  readonly file: string;
  readonly args: readonly string[];
  /** The tool's input; in parts, each is produced when the tool has read the one before. */
  readonly input?: string | Iterable<string> | AsyncIterable<string>;
  readonly timeoutMs?: number;
  /** Limit for each of the two outputs; a tool that prints more is killed. */
  readonly outputBytesMax?: number;
  /** Takes the output in parts as they come; then `stdout` is empty. */
  readonly onOutput?: (part: string) => void;
  /** Takes the processor time of the tool and of starting it, in milliseconds, when it has ended. */
  readonly onUsed?: (ms: number) => void;
  /** Nothing reads its standard output. */
  readonly isSilent?: boolean;
  /** Kills the tool when it aborts: only for tools that change nothing. */
  readonly signal?: AbortSignal | undefined;
  /**
   * The tool takes the beginning of its input for all of it, and changes something: a large text is complete before the tool starts, so that
   * it reads no part when this process is killed. Only with `input` in one text.
   */
  readonly isOneText?: boolean;
  /** Prints and reads little: another process may start it. */
  readonly isSmall?: boolean;
  /** Changes tables: its process id is told before it begins, so that its changes are known as ours. */
  readonly changesTables?: boolean;
  /** Does the same when it runs a second time. */
  readonly isRepeatable?: boolean;
}

/**
 * The result of a run. A tool that could not be started, timed out, was killed or did not get all of its input has no exit code, whatever
 * it reported.
 */
export interface ToolResult {
  readonly exitCode: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
  /** The reason of a failure; empty for exit code 0. */
  readonly why: string;
  /** Why there is no exit code; left out: a signal ended the tool. */
  readonly lost?: Exclude<FailureKind, 'refused'>;
}

/** Starts tools; nothing else in the applier does. */
export type Run = (command: Command) => Promise<ToolResult>;

/** What is used of a child. Types of execa's own would take the compiler half a minute to compare. */
export interface Child extends PromiseLike<ChildResult> {
  readonly pid?: number | undefined;
  readonly nodeChildProcess: ChildProcess;
  readonly stdin: Writable | null;
  readonly stdout: Readable | null;
}
export type PipedChild = Child &
  Readonly<Record<'stdout' | 'stderr', Readable> & { stdin: Writable; kill(signal: 'SIGKILL'): boolean }>;

interface ChildResult {
  readonly failed: boolean;
  readonly exitCode?: number | undefined;
  readonly timedOut?: boolean;
  readonly stdout?: unknown;
  readonly stderr?: unknown;
  readonly signal?: string | undefined;
  readonly originalMessage?: string | undefined;
  readonly code?: string | undefined;
}

/** Called with the exit code of a child. */
export type OnExit = (exitCode: ToolResult['exitCode']) => void;
/** Called with every child before it can have changed anything. */
export type Started = (pid: number, command: Command) => OnExit | undefined;

/** The reason of a failure: the exit code, and the first lines that the tool printed on its standard error. */
export function whyExit(exitCode: number, stderr: string): string {
  const printed = stderr.trim().split('\n').slice(0, 3).join('; ');
  return `exit code ${exitCode}${printed === '' ? '' : `: ${quoted(printed)}`}`;
}

/** The caller's environment does not reach tools: XTABLES_* and LD_* would load other code into them. */
export const toolEnvironment = { LC_ALL: 'C', PATH: '/usr/sbin:/usr/bin:/sbin:/bin', TZ: 'UTC' } as const;

/**
 * The options with which every tool is started and killed.
 * @param lockFd see `runChildren`
 * @param stdin the tool's input
 */
export const startOptions = <const Stdin extends 'pipe' | 'ignore' | AsyncIterable<string> | number>(
  lockFd: number | undefined,
  stdin: Stdin,
) => ({
  env: toolEnvironment,
  extendEnv: false,
  reject: false as const,
  stripFinalNewline: false,
  forceKillAfterDelay: limits.commandKillDelayMs,
  maxBuffer: limits.commandOutputBytesMax,
  // The types do not know that a further entry may be an open file.
  stdio: [stdin, 'pipe', 'pipe', (lockFd ?? 'ignore') as 'ignore'] as const,
});
