import { CommanderError } from 'commander';
import { buildProgram } from './cli/program.ts';
import { exitCodes } from './exit.ts';

/** A reader that has seen enough (`| head`) is no failure; a disk that is full is one. Without a listener Node prints a stack. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return;
  process.stderr.write(`error: Cannot write to standard output: ${error.message} [OUTPUT_UNWRITABLE]\n`);
  process.exitCode = exitCodes.problem;
});
process.stderr.on('error', () => {});

try {
  await buildProgram().parseAsync();
} catch (error) {
  process.exitCode =
    error instanceof CommanderError
      ? error.exitCode === 0
        ? exitCodes.done
        : exitCodes.problem
      : (await import('./commands/failure.ts')).tellFailure(error);
}
