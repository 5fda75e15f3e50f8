import type { Command } from 'commander';

/**
 * Ends the help of a command with examples, and its usage errors with where the help is.
 * @param before what stands before the examples
 * @returns the command
 */
export function examples(command: Command, lines: readonly string[], before?: string): Command {
  const head = before === undefined ? '' : `\n${before}\n`;
  return command
    .showHelpAfterError(`    ${fullName(command)} --help shows what there is`)
    .addHelpText('after', `${head}\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

/** `sluice allocations fix` */
function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}
