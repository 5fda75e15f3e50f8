import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseWords } from './complete.ts';
import { findingsFormats } from './findings/findings.ts';

/** The output formats of every command; some have more. */
export const formats = ['text', 'json'] as const;
export type Format = (typeof formats)[number];

/** `-o`: the format of a command's results and errors. */
export const outputOption = (...more: readonly string[]): Option =>
  new Option('-o, --output <FORMAT>', 'how to print').choices([...formats, ...more]).default('text');

/** The same for a command that judges: its findings have more formats. */
export const findingsOption = (): Option => outputOption(...findingsFormats.filter((format) => format !== 'text'));

/** The same for a command whose `-o` is a path. */
export const reportOption = (): Option =>
  new Option('--report <FORMAT>', 'how to print what was done').choices([...formats]).default('text');

/**
 * `-o` of a command where it is a path. The name of a format is refused: `-o` is a format in most commands, and `-o json` would write to
 * `json`.
 * @param form such as DIR
 */
export const pathOption = (form: string, description: string): Option =>
  new Option(`-o, --output <${form}>`, `${description}; also --out`)
    .argParser((value) => {
      if (value === '') throw new InvalidArgumentError('The value is empty.');
      if (!['yaml', 'markdown', 'html', 'sarif', 'junit', ...formats].includes(value)) return value;
      throw new InvalidArgumentError(`It is a path here, not a format; write ./${value} for a path of this name.`);
    })
    .makeOptionMandatory();

/**
 * Understands `--out` as the path that a command writes to, also where its option is `--output`.
 * @param words all words after the program's name
 */
export function outWords(program: Command, words: readonly string[]): readonly string[] {
  const { options } = parseWords(program, words).command;
  const isPath = options.some((option) => option.long === '--output' && !isFormatOption(option));
  if (!isPath || options.some(({ long }) => long === '--out')) return words;
  const end = words.indexOf('--');
  return words.map((word, at) => (end !== -1 && at > end ? word : word.replace(/^--out(?==|$)/, '--output')));
}

/** Whether an option selects the output format. */
export const isFormatOption = ({ long, argChoices = [] }: Option): boolean =>
  (long === '--output' || long === '--report') && formats.every((format) => argChoices.includes(format));

/**
 * The format that a command line requests, even an invalid one, whose error is printed in this format.
 * @param words all words after the program's name
 */
export function requestedFormat(program: Command, words: readonly string[]): Format {
  return lastFormat(parseWords(program, words).command, words) === 'json' ? 'json' : 'text';
}

/** The last value given for the format of a command; undefined without one. */
export const lastFormat = ({ options }: Command, words: readonly string[]): string | undefined =>
  options
    .filter(isFormatOption)
    .flatMap((option) => valuesOf(option, words))
    .at(-1);

/** All values given for an option: `-o json`, `-ojson`, `--output json`, `--output=json`. */
export function valuesOf({ short, long }: Pick<Option, 'short' | 'long'>, words: readonly string[]): readonly string[] {
  return words.flatMap((word, index) => {
    if (word === short || word === long) return words.slice(index + 1, index + 2);
    if (long !== undefined && long !== null && word.startsWith(`${long}=`)) return [word.slice(long.length + 1)];
    return short !== undefined && word.startsWith(short) ? [word.slice(short.length)] : [];
  });
}
