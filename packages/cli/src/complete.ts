import type { Argument, Command, Option } from 'commander';

/** Values that only the program knows: by the option (`--node`) or the argument (`GENERATION`) that takes them, given the operands before. */
export type KnownNames = Readonly<Record<string, (operands: readonly string[]) => readonly string[]>>;

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
export function complete(program: Command, words: readonly string[], names: KnownNames): Candidates {
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

/** Goes through the words of a command line as the program would, and takes what it does not know for operands. */
export function follow(program: Command, words: readonly string[]): Followed {
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
  names: KnownNames,
): Candidates {
  if (pending !== undefined)
    return ofValue({ key: pending.long ?? '', shown: pending.flags, choices: pending.argChoices }, operands, names);
  if (typed.startsWith('-')) return ofOptions(command);
  const verbs = visible(command);
  if (verbs.length > 0 && operands.length === 0) {
    return { words: verbs.map((sub) => ({ value: sub.name(), description: sub.summary() })), files: false };
  }
  const argument: Argument | undefined = command.registeredArguments[operands.length] ?? variadic(command);
  if (argument === undefined) return noWords;
  const name = argument.name();
  return ofValue({ key: name, shown: name, choices: argument.argChoices }, operands, names);
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

/** The place of a value: behind an option, or among the arguments. */
interface Slot {
  /** As in `KnownNames`. */
  readonly key: string;
  /** The name that the help gives the value: `--config <FILE>`, `GENERATION`. */
  readonly shown: string;
  readonly choices: readonly string[] | undefined;
}

function ofValue({ key, shown, choices }: Slot, operands: readonly string[], names: KnownNames): Candidates {
  if (choices !== undefined) return plain(choices);
  const known = Object.hasOwn(names, key) ? names[key] : undefined;
  if (known !== undefined) return plain(known(operands));
  return /FILE|DIR|SNAPSHOT|OLD|NEW/.test(shown) ? files : noWords;
}

function plain(values: readonly string[]): Candidates {
  return { words: values.map((value) => ({ value, description: '' })), files: false };
}
