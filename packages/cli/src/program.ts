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
    'preflight apply import run boot rehearse status top history observe confirm cancel extend rollback checkpoint quarantine drain undrain adopt backend recover cleanup keygen',
} as const;

/** A program without commands. Its help fits the terminal; `colours` decides whether that has colours. */
export function newProgram(name: keyof typeof ownCommands, description: string): Command {
  return new Command(name)
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
    .configureOutput({ outputError: (text, write) => write(withOwner(text, name)) })
    .exitOverride();
}

/**
 * An error of a command line, with the program that has a command which this one has not.
 * @param program its name; in the image of a node, `sluice` has fewer commands than elsewhere
 */
const withOwner = (text: string, program: string): string =>
  text.replace(/(unknown command '([^'\n]*)')(?:\s*\(Did you mean .*\?\))?/, (whole, error: string, name: string) => {
    const owner = Object.entries(ownCommands).find(([, names]) => names.split(' ').includes(name));
    if (owner === undefined) return whole;
    return owner[0] === program
      ? `${error} in the image of a node, whose ${program} renders alone: use an installed one`
      : `${error}; it is a command of the other program: ${owner[0]} ${name}`;
  });

/**
 * Converts commander's error for an invalid command line to a problem.
 * @param words all words after the program's name
 */
export function usageProblem(program: Command, words: readonly string[], { message }: CommanderError) {
  return {
    code: 'USAGE_INVALID',
    level: 'error',
    message: withOwner(message, program.name())
      .replace(/^error: /, '')
      .replaceAll(/\s*\n\s*/g, ' '),
    hint: helpHint(parseWords(program, words).command),
  } as const;
}
