import type { Command } from 'commander';
import { styled } from './colour.ts';

/**
 * Appends examples to the help of a command, and a pointer to the help to its usage errors.
 * @param before text before the examples
 * @returns the command
 */
export function examples(command: Command, lines: readonly string[], before?: string): Command {
  return command.showHelpAfterError(`    ${helpHint(command)}`).addHelpText('after', () => {
    const width = command.configureOutput().getOutHelpWidth?.() ?? 80;
    const head = before === undefined ? '' : `\n${command.createHelp().boxWrap(before, width)}\n`;
    return `${head}\n${styled('bold')('Examples:')}\n${lines.map((line) => `  ${line}`).join('\n')}`;
  });
}

export const helpHint = (command: Command): string => `${fullName(command)} --help lists commands and options`;

/** `sluice allocations fix` */
function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}
