import { Argument, type Command } from 'commander';
import { shells } from './completion.ts';
import { examples, run } from './options.ts';

/** What makes a shell know `sluice`. */
export function shellCommands(program: Command): void {
  examples(program.command('completion'), [
    'source <(sluice completion bash)                                       # in ~/.bashrc',
    'sluice completion zsh > "${fpath[1]}/_sluice"',
    'sluice completion fish > ~/.config/fish/completions/sluice.fish',
  ])
    .summary('print the completion script of a shell')
    .description(
      'Prints the script with which a shell completes commands, options, files, and names of nodes and Services.',
    )
    .addArgument(new Argument('<SHELL>', 'the shell').choices(shells))
    .action(run(async (_options, shell) => (await import('./completing.ts')).completionCommand(shell)));

  program
    .command('complete', { hidden: true })
    .argument('[WORD...]', 'the words so far')
    .action(run(async (_options, words) => (await import('./completing.ts')).completeCommand(program, words)));
}
