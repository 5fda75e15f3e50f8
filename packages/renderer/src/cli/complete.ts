import type { Argument, Command, Option } from 'commander';
import type { BundleNames } from '../load/names.ts';

/** What a word may become. */
export interface Candidate {
  readonly value: string;
  /** One line for shells that show one. */
  readonly description: string;
}

export interface Candidates {
  /** In the order of the help. */
  readonly words: readonly Candidate[];
  /** The shell completes names of files, which it does better than anybody else. */
  readonly files: boolean;
}

/**
 * What the last of the words may become.
 * @param words all words after the program's name up to the cursor; the last one is what has been typed of it, perhaps nothing
 */
export function complete(program: Command, words: readonly string[], names: BundleNames): Candidates {
  const typed = words.at(-1) ?? '';
  const { command, operands, pending } = follow(program, words.slice(0, -1));
  const all = candidates(command, operands, pending, typed, names);
  return { ...all, words: all.words.filter(({ value }) => value.startsWith(typed)) };
}

interface Followed {
  /** The command that the words lead to. */
  readonly command: Command;
  readonly operands: readonly string[];
  /** An option that still waits for its value. */
  readonly pending?: Option;
}

function follow(program: Command, words: readonly string[]): Followed {
  let command = program;
  let pending: Option | undefined;
  const operands: string[] = [];
  for (const word of words) {
    if (pending !== undefined) {
      pending = undefined;
    } else if (word.startsWith('-') && word !== '-') {
      pending = word.includes('=') ? undefined : optionsOf(command).find((option) => takesValue(option, word));
    } else {
      const sub = operands.length === 0 ? command.commands.find((known) => known.name() === word) : undefined;
      if (sub === undefined) operands.push(word);
      else command = sub;
    }
  }
  return { command, operands, ...(pending === undefined ? {} : { pending }) };
}

function takesValue(option: Option, word: string): boolean {
  return (option.long === word || option.short === word) && (option.required || option.optional);
}

/** Every command answers to --help, which commander keeps apart. */
const help = { long: '--help', description: 'display help for command' };

function optionsOf(command: Command): readonly Option[] {
  return command.options.filter((option) => !option.hidden);
}

const noWords: Candidates = { words: [], files: false };
const files: Candidates = { words: [], files: true };

function candidates(
  command: Command,
  operands: readonly string[],
  pending: Option | undefined,
  typed: string,
  names: BundleNames,
): Candidates {
  if (pending !== undefined) return ofValue(pending, operands, names);
  if (typed.startsWith('-')) return ofOptions(command);
  const verbs = visible(command);
  if (verbs.length > 0 && operands.length === 0) {
    return { words: verbs.map((sub) => ({ value: sub.name(), description: sub.summary() })), files: false };
  }
  const argument: Argument | undefined = command.registeredArguments[operands.length] ?? variadic(command);
  if (argument === undefined) return noWords;
  return argument.argChoices === undefined ? files : plain(argument.argChoices);
}

function variadic(command: Command): Argument | undefined {
  const last = command.registeredArguments.at(-1);
  return last?.variadic === true ? last : undefined;
}

/** Commands that the help shows. */
function visible(command: Command): readonly Command[] {
  return command.createHelp().visibleCommands(command);
}

function ofOptions(command: Command): Candidates {
  const words = [...optionsOf(command), help].flatMap(({ long, description }) =>
    long === undefined || long === null ? [] : [{ value: long, description }],
  );
  return { words, files: false };
}

/** What an option's value is, by the name that the help gives it: `--node <NAME>`, `--service <NS/NAME>`. */
function ofValue(option: Option, operands: readonly string[], names: BundleNames): Candidates {
  if (option.argChoices !== undefined) return plain(option.argChoices);
  const dir = operands[0] ?? 'rendered';
  if (option.long === '--node') return plain(names.nodes(dir));
  if (option.long === '--service') return plain(names.services(dir));
  return /FILE|DIR|SNAPSHOT/.test(option.flags) ? files : noWords;
}

function plain(values: readonly string[]): Candidates {
  return { words: values.map((value) => ({ value, description: '' })), files: false };
}
