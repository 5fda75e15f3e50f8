import type { Command, CommanderError } from 'commander';
import { follow } from './complete.ts';

/**
 * Ends the help of a command with examples, and its usage errors with where the help is.
 * @param before what stands before the examples
 * @returns the command
 */
export function examples(command: Command, lines: readonly string[], before?: string): Command {
  const head = before === undefined ? '' : `\n${before}\n`;
  return command
    .showHelpAfterError(`    ${helpHint(command)}`)
    .addHelpText('after', `${head}\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

const helpHint = (command: Command): string => `${fullName(command)} --help shows what there is`;

/** `sluice allocations fix` */
function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

/**
 * What commander says of a command line that it cannot parse, as a problem.
 * @param words all words after the program's name
 */
export function usageProblem(program: Command, words: readonly string[], { message }: CommanderError) {
  return {
    code: 'USAGE_INVALID',
    level: 'error',
    message: message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' '),
    hint: helpHint(follow(program, words).command),
  } as const;
}
