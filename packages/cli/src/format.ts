import { type Command, Option } from 'commander';
import { follow } from './complete.ts';

/** The forms that every command has; some have more. */
export const formats = ['text', 'json'] as const;
export type Format = (typeof formats)[number];

/** `-o`: how a command prints what it has found or done, and its errors. */
export const outputOption = (...more: readonly string[]): Option =>
  new Option('-o, --output <FORMAT>', 'how to print').choices([...formats, ...more]).default('text');

/** The same for a command whose `-o` is a path. */
export const reportOption = (): Option =>
  new Option('--report <FORMAT>', 'how to print what was done').choices([...formats]).default('text');

/** True for the option with which a command is asked for a format. */
export const asksFormat = ({ long, argChoices = [] }: Option): boolean =>
  (long === '--output' || long === '--report') && formats.every((format) => argChoices.includes(format));

/**
 * The format that a command line asks for, also one that cannot be parsed: then the error is to be printed so.
 * @param words all words after the program's name
 */
export function askedFormat(program: Command, words: readonly string[]): Format {
  const { command } = follow(program, words);
  const values = command.options.filter(asksFormat).flatMap((option) => valuesOf(option, words));
  return values.at(-1) === 'json' ? 'json' : 'text';
}

/** Every value that is given for an option: `-o json`, `-ojson`, `--output json`, `--output=json`. */
function valuesOf({ short, long }: Option, words: readonly string[]): readonly string[] {
  return words.flatMap((word, index) => {
    if (word === short || word === long) return words.slice(index + 1, index + 2);
    if (long !== undefined && long !== null && word.startsWith(`${long}=`)) return [word.slice(long.length + 1)];
    return short !== undefined && word.startsWith(short) ? [word.slice(short.length)] : [];
  });
}
