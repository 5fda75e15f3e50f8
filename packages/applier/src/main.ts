import { CommanderError } from 'commander';
import type { CommonOptions, Terminal } from './commands/terminal.ts';
import { buildProgram } from './program.ts';
import { exitCodes } from './rollout/outcome.ts';

/** The only reader of arguments, environment, clock and signals. */

const terminal: Terminal = {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
  ...(process.stdin.isTTY && process.stdout.isTTY ? { ask } : {}),
};

async function ask(question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline/promises');
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return (await reader.question(`${question} Only yes is a yes: `)).trim().toLowerCase() === 'yes';
  } finally {
    reader.close();
  }
}

async function finish(work: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await work();
  } catch (error) {
    const { tellError } = await import('./commands/terminal.ts');
    process.exitCode = tellError(error, terminal);
  }
}

async function runDaemon(options: CommonOptions): Promise<number> {
  const { smallHeap } = await import('./memory.ts');
  const heap = smallHeap();
  const { run } = await import('./commands/run.ts');
  return run(options, {
    heap,
    monotonicMs: () => performance.now(),
    stdout: process.stdout,
    isTerminal: process.stdout.isTTY,
    environment: process.env,
    onStop(stop) {
      // Not `once`: execa ends the process at once when it finds itself alone with a signal while a tool runs.
      process.on('SIGTERM', stop);
      process.on('SIGINT', stop);
    },
    // Without a listener the signal ends the process: a closed terminal must not end a daemon that was started from it.
    onLook: (look) => process.on('SIGHUP', look),
  });
}

/** A reader that has seen enough (`| head`) is no failure. Without a listener Node prints a stack. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return;
  process.stderr.write(`error: Cannot write to standard output: ${error.message}\n`);
  process.exitCode = exitCodes.problem;
});
process.stderr.on('error', () => {});

try {
  await buildProgram({ terminal, finish, runDaemon }).parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.problem;
}
