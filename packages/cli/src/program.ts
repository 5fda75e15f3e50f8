import { Command, type CommanderError } from 'commander';
import { colourOption, styled } from './colour.ts';
import { parseWords } from './complete.ts';
import { helpHint } from './help.ts';
import { version } from './version.ts';

/** The commands that one program has and the other has not. */
export const ownCommands = {
  sluice:
    'render validate allocations snapshot watch krm ls explain cost trace at bisect diff report policy prove what-if release sign verify pack push pull promote fleet parity certify adopt-plan',
  sluiced:
    'preflight apply import fetch run boot rehearse status top history observe confirm cancel extend rollback checkpoint quarantine drain undrain adopt backend recover cleanup keygen',
} as const;

/** A program without commands. Its help fits the terminal; `colours` decides whether that has colours. */
export function newProgram(name: keyof typeof ownCommands, description: string): Command {
  const program = new Command(name);
  return program
    .description(description)
    .version(version)
    .addOption(colourOption())
    .configureHelp({
      sortSubcommands: false,
      subcommandTerm: (command) => command.name(),
      styleTitle: styled('bold'),
      styleOptionText: styled('cyan'),
      styleArgumentText: styled('cyan'),
      styleSubcommandText: styled('cyan'),
    })
    .configureOutput({ outputError: (text, write) => write(withOwner(text, program)) })
    .exitOverride();
}

/** An error of a command line, with where an unknown command is one. In the image of a node, `sluice` has fewer than elsewhere. */
const withOwner = (text: string, program: Command): string =>
  text.replace(/(unknown command '([^'\n]*)')(?:\s*\(Did you mean .*\?\))?/, (whole, error: string, name: string) => {
    const owner = Object.entries(ownCommands).find(([, names]) => names.split(' ').includes(name));
    if (owner === undefined) return whole;
    if (owner[0] !== program.name()) return `${error}; it is a command of the other program: ${owner[0]} ${name}`;
    return program.commands.some((command) => command.name() === name)
      ? `${error}; it is a command of its own: ${owner[0]} ${name}`
      : `${error} in the image of a node, whose ${owner[0]} renders alone: use an installed one`;
  });

/**
 * Converts commander's error for an invalid command line to a problem.
 * @param words all words after the program's name
 */
export function usageProblem(program: Command, words: readonly string[], { message }: CommanderError) {
  return {
    code: 'USAGE_INVALID',
    level: 'error',
    message: withOwner(message, program)
      .replace(/^error: /, '')
      .replaceAll(/\s*\n\s*/g, ' '),
    hint: helpHint(parseWords(program, words).command),
  } as const;
}
