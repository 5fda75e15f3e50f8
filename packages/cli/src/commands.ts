import { Argument, type Command } from 'commander';
import { type Completions, complete, type KnownNames } from './complete.ts';
import { document } from './document.ts';
import { type Format, outputOption } from './format.ts';
import { examples } from './help.ts';
import { completionScript, filesMark, type Shell, shells } from './scripts.ts';

/**
 * Adds the commands for shell completion to a program: `completion`, which prints the script of a shell, and `complete`, which the scripts
 * call.
 * @param names sources of values that only the program knows
 * @param print writes to standard output
 */
export function shellCommands(program: Command, names: KnownNames, print: (text: string) => void): void {
  const name = program.name();
  examples(program.command('completion'), [
    `source <(${name} completion bash)${' '.repeat(40)}# in ~/.bashrc`,
    `${name} completion zsh > "\${fpath[1]}/_${name}"`,
    `${name} completion fish > ~/.config/fish/completions/${name}.fish`,
  ])
    .summary('print the completion script of a shell')
    .description(
      'Prints a script that makes a shell complete commands, options, files, and names that the program knows.',
    )
    .addArgument(new Argument('<SHELL>', 'the shell').choices(shells))
    .addOption(outputOption())
    .action((shell: Shell, { output }: { readonly output: Format }) => {
      const script = completionScript(name, shell);
      print(output === 'json' ? document('CompletionScript', { shell, script }) : script);
    });

  program
    .command('complete', { hidden: true })
    .argument('[WORD...]', 'the words of the command line')
    .addOption(outputOption())
    .action((words: readonly string[], { output }: { readonly output: Format }) => {
      const found = complete(program, words, names);
      print(output === 'json' ? document('Candidates', found) : linesOf(found));
    });
}

/** One candidate per line, in the form that the scripts read. */
function linesOf({ words, files }: Completions): string {
  const lines = words.map(({ value, description }) => (description === '' ? value : `${value}\t${description}`));
  return [...lines, ...(files ? [filesMark] : [])].map((line) => `${line}\n`).join('');
}
