import { colours, outWords, reasonOf, requestedFormat, usageProblem, versionWords } from '@sluice/cli';
import { type Command, CommanderError } from 'commander';
import { setColours } from '@sluice/renderer/commands/output/progress.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';

/** Runs a program of the command line with the words of this process, and sets its exit code. */
export async function runProgram(program: Command): Promise<void> {
  endWithReaders();
  const words = versionWords(process.argv.slice(2));
  setColours(colours(program, words, process));
  let usage: CommanderError | undefined;
  try {
    await program.parseAsync(outWords(program, words), { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) usage = error;
    else process.exitCode = (await import('@sluice/renderer/commands/failure/failure.ts')).reportFailure(error);
  }
  if (usage !== undefined) process.exitCode = usage.exitCode === 0 ? exitCodes.done : exitCodes.problem;
  if ((process.exitCode ?? exitCodes.done) !== exitCodes.done && requestedFormat(program, words) === 'json') {
    const { printError } = await import('@sluice/renderer/commands/output/output.ts');
    printError(usage && [usageProblem(program, words, usage)]);
  }
}

/** A closed pipe (`| head`) is not an error; a full disk is. Without a listener Node prints a stack trace. */
function endWithReaders(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return;
    process.stderr.write(`error: Cannot write to standard output: ${reasonOf(error)} [OUTPUT_UNWRITABLE]\n`);
    process.exitCode = exitCodes.problem;
  });
  process.stderr.on('error', () => {});
}
