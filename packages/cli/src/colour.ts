import { styleText } from 'node:util';
import { type Command, Option } from 'commander';
import { parseWords } from './complete.ts';
import { lastFormat, valuesOf } from './format.ts';

type TextStyle = Parameters<typeof styleText>[0];

/** What of a text gets which style. Every pattern begins and ends within a line. */
type Style = readonly [part: RegExp, style: TextStyle];

/** Gives a text a style, whatever it is written to. */
export const styled =
  (style: TextStyle): Paint =>
  (text) =>
    styleText(style, text, { validateStream: false });

const problems: readonly Style[] = [
  [/(?<=^(?:\S+: )?)error(?=: )/gm, ['bold', 'red']],
  [/(?<=^(?:\S+: )?)warning(?=: )/gm, 'yellow'],
  [/(?<=^(?:\S+: )?)(?:note|waived)(?=: )/gm, 'cyan'],
  [/ \[[A-Z]\w+\]$/gm, 'dim'],
];

/** The styles of what a command prints, by its name in either program. A line of a unified diff begins with its sign. */
const ofCommands: Readonly<Record<string, readonly Style[]>> = {
  diff: [
    [/^(?:\+| {4}\+ ).*$/gm, 'green'],
    [/^(?:-| {4}- ).*$/gm, 'red'],
    [/^(?:~| {4}~ ).*$/gm, 'yellow'],
    [/^@@.*$/gm, 'cyan'],
    [/^ {4}packet: .*$/gm, 'dim'],
  ],
  doctor: [
    [/^(?!also|note).*\[[A-Z]\w+\]$/gm, ['bold', 'red']],
    [/(?<=: )no cause found$/gm, 'green'],
    [/^ {2}(?:seen|fix)|^(?:also|note|not read|not seen)(?= )/gm, 'cyan'],
  ],
  policy: [...problems, [/^No policy findings$/gm, 'green']],
  status: [
    [/(?<=^(?:kernel|daemon) +)(?:holds the confirmed rules|healthy)$/gm, 'green'],
    [/(?<= )(?:HOLDS RULES|DIFFERS|NOT RUNNING|NOT REQUIRED|OFF|BAD|not healthy)(?=[ :,]|$)/gm, ['bold', 'red']],
    [/^(?:alarm|halted|damaged|quarantined)(?= )/gm, ['bold', 'red']],
    [/^(?:probation|partial|back-off|waits|draining|eligible)(?= )/gm, 'yellow'],
    [/^[a-z][a-z ]{0,10}(?= )/gm, 'cyan'],
  ],
};

/** `--color` of a program, before or after its commands. */
export const colourOption = (): Option =>
  new Option('--color <WHEN>', 'colours: on a terminal without NO_COLOR, in any case, or never')
    .choices(['auto', 'always', 'never'])
    .default('auto');

/** What is asked of a standard stream: `process.stdout` has the function on a terminal alone. */
export interface ColourStream {
  hasColors?(): boolean;
}

/** Whether to print colours: as `--color` says, else on a terminal that has them, which `NO_COLOR` and `TERM` decide. */
const isColoured = (words: readonly string[], stream: ColourStream): boolean => {
  const when = valuesOf({ long: '--color' }, words).at(-1);
  return when === 'always' || (when !== 'never' && stream.hasColors?.() === true);
};

const painter =
  (styles: readonly Style[]): Paint =>
  (text) =>
    styles.reduce((done, [part, style]) => done.replace(part, styled(style)), text);

/** Gives a printed text its colours; it does nothing where there are none. */
export type Paint = (text: string) => string;

/**
 * The colours of a call: of results, which only text has, and of problems. The help of the program gets its own.
 * @param words all words after the program's name
 */
export function colours(
  program: Command,
  words: readonly string[],
  streams: { readonly stdout: ColourStream; readonly stderr: ColourStream },
): { readonly out: Paint; readonly err: Paint } {
  const [inOut, inErr] = [isColoured(words, streams.stdout), isColoured(words, streams.stderr)];
  const { command } = parseWords(program, words);
  const isText = [undefined, 'text'].includes(lastFormat(command, words));
  const err = painter(inErr ? problems : []);
  const output = program.configureOutput();
  const write = output.outputError?.bind(output);
  // All commands share the object.
  Object.assign(output, {
    getOutHasColors: () => inOut,
    getErrHasColors: () => inErr,
    outputError: (text: string, print: (text: string) => void) => write?.(text, (line) => print(err(line))),
  });
  return { out: painter((inOut && isText && ofCommands[command.name()]) || []), err };
}
