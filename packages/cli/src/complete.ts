import type { Argument, Command, Option } from 'commander';

/** Sources of values that only the program knows: option (`--node`) or argument (`GENERATION`) → values, given the operands before. */
export type KnownNames = Readonly<Record<string, (operands: readonly string[]) => readonly string[]>>;

/** A completion of a word. */
interface Completion {
  readonly value: string;
  /** One line, for shells that show descriptions. */
  readonly description: string;
}

export interface Completions {
  /** In the order of the help. */
  readonly words: readonly Completion[];
  /** Whether the shell shall complete file names. */
  readonly files: boolean;
}

/**
 * Completes the last of the words.
 * @param words all words after the program's name up to the cursor; the last one may be partial or empty
 */
export function complete(program: Command, words: readonly string[], names: KnownNames): Completions {
  const inner = innerWords(program, words);
  if (inner !== undefined) return complete(program, inner, names);
  const typed = words.at(-1) ?? '';
  const { command, operands, pending } = parseWords(program, words.slice(0, -1));
  const all = candidates(command, operands, pending, typed, names);
  return { ...all, words: all.words.filter(({ value }) => value.startsWith(typed)) };
}

/** The words of a command that another one takes after `--`, as `sluice bisect` does; undefined where there is none. */
function innerWords(program: Command, words: readonly string[]): readonly string[] | undefined {
  const at = words.indexOf('--');
  if (at < 0 || at === words.length - 1) return undefined;
  const { command } = parseWords(program, words.slice(0, at));
  return variadic(command)?.name() === 'COMMAND' ? words.slice(at + 1) : undefined;
}

interface ParsedWords {
  /** The innermost command that the words name. */
  readonly command: Command;
  readonly operands: readonly string[];
  /** An option whose value is the next word. */
  readonly pending?: Option;
}

/** Parses the words of a command line without errors: unknown words are operands. */
export function parseWords(program: Command, words: readonly string[]): ParsedWords {
  let command = program;
  let pending: Option | undefined;
  const operands: string[] = [];
  for (const word of words) {
    if (pending !== undefined) {
      pending = undefined;
    } else if (word.startsWith('-') && word !== '-') {
      const known = [...optionsOf(command), ...optionsOf(program)];
      pending = word.includes('=') ? undefined : known.find((option) => takesValue(option, word));
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

/** The option of every command that commander does not list. */
const help = { long: '--help', description: 'display help for command' };

function optionsOf(command: Command): readonly Option[] {
  return command.options.filter((option) => !option.hidden);
}

const noWords: Completions = { words: [], files: false };
const files: Completions = { words: [], files: true };

function candidates(
  command: Command,
  operands: readonly string[],
  pending: Option | undefined,
  typed: string,
  names: KnownNames,
): Completions {
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

function visible(command: Command): readonly Command[] {
  return command.createHelp().visibleCommands(command);
}

function ofOptions(command: Command): Completions {
  const words = [...optionsOf(command), help].flatMap(({ long, description }) =>
    long === undefined || long === null ? [] : [{ value: long, description }],
  );
  return { words, files: false };
}

/** The value of an option or an argument. */
interface ValueSlot {
  /** As in `KnownNames`. */
  readonly key: string;
  /** Its name in the help: `--config <FILE>`, `GENERATION`. */
  readonly shown: string;
  readonly choices: readonly string[] | undefined;
}

function ofValue({ key, shown, choices }: ValueSlot, operands: readonly string[], names: KnownNames): Completions {
  if (choices !== undefined) return plain(choices);
  const known = Object.hasOwn(names, key) ? names[key] : undefined;
  if (known !== undefined) return plain(known(operands));
  return /FILE|DIR|SNAPSHOT|OLD|NEW/.test(shown) ? files : noWords;
}

function plain(values: readonly string[]): Completions {
  return { words: values.map((value) => ({ value, description: '' })), files: false };
}
