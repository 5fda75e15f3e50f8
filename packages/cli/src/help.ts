import type { Command, CommanderError } from 'commander';
import { parseWords } from './complete.ts';

/**
 * Appends examples to the help of a command, and a pointer to the help to its usage errors.
 * @param before text before the examples
 * @returns the command
 */
export function examples(command: Command, lines: readonly string[], before?: string): Command {
  const head = before === undefined ? '' : `\n${before}\n`;
  return command
    .showHelpAfterError(`    ${helpHint(command)}`)
    .addHelpText('after', `${head}\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

const helpHint = (command: Command): string => `${fullName(command)} --help lists commands and options`;

/** `sluice allocations fix` */
function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

/**
 * Converts commander's error for an invalid command line to a problem.
 * @param words all words after the program's name
 */
export function usageProblem(program: Command, words: readonly string[], { message }: CommanderError) {
  return {
    code: 'USAGE_INVALID',
    level: 'error',
    message: message.replace(/^error: /, '').replaceAll(/\s*\n\s*/g, ' '),
    hint: helpHint(parseWords(program, words).command),
  } as const;
}
