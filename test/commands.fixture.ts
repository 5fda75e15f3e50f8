import type { Command } from 'commander';
import { buildProgram as buildSluiced } from '../packages/applier/src/program.ts';
import { buildProgram as buildSluice } from '../packages/sluice/src/program.ts';

/** All commands without subcommands, hidden ones too. */
function leaves(command: Command): readonly Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leaves);
}

/** `['allocations', 'fix']` */
export const wordsOf = (command: Command): readonly string[] =>
  command.parent === null ? [] : [...wordsOf(command.parent), command.name()];

/** All commands of both programs. */
export const commands = [
  { name: 'sluice', program: buildSluice() },
  { name: 'sluiced', program: buildSluiced() },
].flatMap(({ name, program }) =>
  leaves(program).map((command) => ({
    name: name as 'sluice' | 'sluiced',
    command,
    title: [name, ...wordsOf(command)].join(' '),
  })),
);
