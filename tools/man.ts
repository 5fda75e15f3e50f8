/** Man pages from what `--help` shows: man(7) macros, one page a program. */
import type { EventEmitter } from 'node:events';
import type { Command, Option } from 'commander';

export interface ManPage {
  /** The section of the manual: 1 for people, 8 for administrators. */
  readonly section: 1 | 8;
  /** Exit code and meaning, as `exitMeanings` has them. */
  readonly exitCodes: readonly (readonly [number, string])[];
  readonly seeAlso: readonly string[];
}

/**
 * The page of a program. It has no date: the same program gives the same page.
 * @param program every command with its options, as the program itself builds it
 */
export function manPage(program: Command, page: ManPage): string {
  const name = program.name();
  const lines = [
    `.TH ${name.toUpperCase()} ${page.section} "" "${name} ${program.version() ?? ''}" "Sluice"`,
    '.SH NAME',
    `${name} \\- ${roff(withoutDot(program.description()))}`,
    '.SH SYNOPSIS',
    ...leaves(program).flatMap((command) => ['.PP', synopsis(command)]),
    '.SH OPTIONS',
    ...program.options.flatMap(option),
    '.SH COMMANDS',
    ...leaves(program).flatMap((command) => commandLines(command)),
    '.SH EXIT STATUS',
    ...page.exitCodes.flatMap(([code, meaning]) => ['.TP', `.B ${code}`, roff(meaning)]),
    ...examples('.SH', afterHelp(program).examples),
    '.SH SEE ALSO',
    page.seeAlso.map((other) => `.BR ${other}`).join(',\n'),
  ];
  return `${lines.join('\n')}\n`;
}

/** The commands that do something, in the order of the help. */
function leaves(command: Command): readonly Command[] {
  const subs = command.createHelp().visibleCommands(command);
  return subs.flatMap((sub) => (sub.name() === 'help' ? [] : sub.commands.length > 0 ? leaves(sub) : [sub]));
}

function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

function synopsis(command: Command): string {
  const named = command.usage().replace('[options]', '').trim();
  const required = command.options.filter((one) => one.mandatory).map(spelling);
  const rest = [...required, '[options]', named].filter((part) => part !== '').map(roff);
  return `.B ${roff(fullName(command))}\n${rest.join(' ')}`;
}

/** `-f <FILE>` */
function spelling(one: Option): string {
  const value = one.flags.includes('<') ? ` ${one.flags.slice(one.flags.indexOf('<'))}` : '';
  return `${one.short ?? one.long}${value}`;
}

function commandLines(command: Command): readonly string[] {
  const { before, examples: shown } = afterHelp(command);
  return [
    `.SS ${roff(fullName(command))}`,
    roff(command.description()),
    ...command.registeredArguments.flatMap((argument) => [
      '.TP',
      `.I ${roff(argument.name())}`,
      roff([argument.description, ...defaultOf(argument.defaultValue)].join(' ')),
    ]),
    ...command.options.filter((one) => !one.hidden).flatMap(option),
    ...(before === '' ? [] : ['.PP', roff(before)]),
    ...examples('.PP', shown),
  ];
}

function option(one: Option): readonly string[] {
  const choices = one.argChoices === undefined ? [] : [`(${one.argChoices.join(', ')})`];
  return [
    '.TP',
    `.B ${roff(one.flags)}`,
    roff([one.description, ...choices, ...defaultOf(one.defaultValue)].join(' ')),
  ];
}

function defaultOf(value: unknown): readonly string[] {
  return typeof value === 'string' ? [`(default: ${value})`] : [];
}

/** What the help shows after a command's options: commander passes it to whoever asks by this event. */
function afterHelp(command: Command): { readonly before: string; readonly examples: readonly string[] } {
  let text = '';
  // Commander is an EventEmitter, which its types leave out.
  (command as unknown as EventEmitter).emit('afterHelp', {
    error: false,
    command,
    write: (part: string) => (text += part),
  });
  const [before = '', shown = ''] = text.split('Examples:\n');
  const lines = shown.split('\n').map((line) => line.replace(/^ {2}/, ''));
  return { before: before.trim(), examples: lines.filter((line) => line !== '') };
}

function examples(heading: '.SH' | '.PP', lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return [];
  return [heading === '.SH' ? '.SH EXAMPLES' : '.PP', '.nf', ...lines.map((line) => `    ${roff(line)}`), '.fi'];
}

function withoutDot(text: string): string {
  return text.replace(/\.$/, '');
}

/** No text becomes a request: a dash is a dash, a backslash a backslash, and no line begins with a control character. */
function roff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('`', '\\(ga')
    .replace(/^(?=[.'])/gm, '\\&');
}
