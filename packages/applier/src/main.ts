import { fstatSync, writeFileSync } from 'node:fs';
import type { Problem } from '@sluice/netfilter';
import {
  colours,
  requestedFormat,
  errorDocument,
  isJournal,
  outWords,
  type LogSettings,
  printable,
  reasonOf,
  usageProblem,
  versionWords,
  withPriorities,
} from '@sluice/cli';
import type { AdjustableLog } from '@sluice/cli/log';
import { CommanderError } from 'commander';
import type { CommonOptions, Terminal } from './commands/terminal/terminal.ts';
import { buildProgram } from './program.ts';
import { exitCodes } from './ports/outcome.ts';

/** The only file that reads arguments, environment, clock and signals. */

const words = versionWords(process.argv.slice(2));
const isInJournal = isJournal(process.env['JOURNAL_STREAM'], () => fstatSync(process.stderr.fd));
const problems: Problem[] = [];
let hasPrinted = false;
let log: AdjustableLog | undefined;

const terminal: Terminal = {
  out(text) {
    hasPrinted ||= text !== '';
    process.stdout.write(paint.out(printable(text)));
  },
  err: (text) => process.stderr.write(isInJournal ? printable(withPriorities(text)) : paint.err(printable(text))),
  problems,
  openLog,
  ...(process.stdin.isTTY && process.stderr.isTTY ? { ask } : {}),
  ...(process.stdout.isTTY ? { screen: { rows: process.stdout.rows, show, pause } } : {}),
};

function show(page: string): void {
  process.stdout.write(`\u001B[H\u001B[J${paint.out(printable(page))}`);
}

async function pause(ms: number): Promise<boolean> {
  const { setTimeout } = await import('node:timers/promises');
  const stop = new AbortController();
  const interrupt = (): void => stop.abort();
  process.once('SIGINT', interrupt);
  const ended = setTimeout(ms, true, { signal: stop.signal }).catch(() => false);
  return ended.finally(() => process.off('SIGINT', interrupt));
}

async function openLog(settings: LogSettings): Promise<AdjustableLog> {
  const { makeLog } = await import('@sluice/cli/log');
  log = makeLog(settings, { write: (line) => process.stderr.write(line), isJournal: isInJournal });
  return log;
}

async function ask(question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline/promises');
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await reader.question(`${printable(question)} Type yes to continue: `)).trim().toLowerCase() === 'yes';
  } finally {
    reader.close();
  }
}

async function finish(work: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await work();
  } catch (error) {
    const { printFailure } = await import('./commands/terminal/terminal.ts');
    process.exitCode = printFailure(error, terminal);
  }
  if (process.exitCode !== exitCodes.done) printError(problems);
}

/** With `-o json`, a command that failed before printing a document prints its error as one. */
function printError(printed: readonly Problem[]): void {
  if (!hasPrinted && requestedFormat(program, words) === 'json') process.stdout.write(errorDocument(printed));
}

async function runDaemon(options: CommonOptions): Promise<number> {
  // First: without a listener, SIGUSR2 ends the process and SIGUSR1 opens a debugger.
  process.on('SIGUSR1', () => log?.moreDetail());
  process.on('SIGUSR2', () => log?.lessDetail());
  try {
    // Node names its main thread after itself, and `pgrep` and `top` find the daemon by this name.
    writeFileSync('/proc/self/comm', 'sluiced');
  } catch {}
  const { smallHeap } = await import('./memory.ts');
  const heap = smallHeap();
  const { run } = await import('./commands/run/run.ts');
  return run(options, {
    heap,
    monotonicMs: () => performance.now(),
    openLog,
    environment: process.env,
    onStop(stop) {
      // Not `once`: execa ends the process when it is the only listener left and a tool is running.
      process.on('SIGTERM', stop);
      process.on('SIGINT', stop);
    },
    // Without a listener SIGHUP ends the process: closing a terminal must not stop a daemon that was started from it.
    onLook: (look) => process.on('SIGHUP', look),
  });
}

/** A closed pipe (`| head`) is not an error. Without a listener Node prints a stack trace. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return;
  process.stderr.write(`error: Cannot write to standard output: ${reasonOf(error)}\n`);
  process.exitCode = exitCodes.problem;
});
process.stderr.on('error', () => {});

const program = buildProgram({ terminal, finish, environment: process.env, runDaemon });
const paint = colours(program, words, process);
try {
  await program.parseAsync(outWords(program, words), { from: 'user' });
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.problem;
  if (error.exitCode !== 0) printError([usageProblem(program, words, error)]);
}
