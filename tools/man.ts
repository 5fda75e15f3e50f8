/** Man pages from the output of `--help`: man(7) macros, one page per program. */
import type { Command, Option } from 'commander';
import { afterHelp, argumentNote, fullName, leaves, optionNote, usageOf } from './command-tree.ts';

export interface ManPage {
  /** The section of the manual: 1 for people, 8 for administrators. */
  readonly section: 1 | 8;
  /** Exit code and meaning, as `exitMeanings` has them. */
  readonly exitCodes: readonly (readonly [number, string])[];
  readonly seeAlso: readonly string[];
}

/**
 * Prints the page of a program. It has no date: the same program gives the same page.
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

function synopsis(command: Command): string {
  return `.B ${roff(fullName(command))}\n${usageOf(command).map(roff).join(' ')}`;
}

function commandLines(command: Command): readonly string[] {
  const { before, examples: shown } = afterHelp(command);
  return [
    `.SS ${roff(fullName(command))}`,
    roff(command.description()),
    ...command.registeredArguments.flatMap((argument) => [
      '.TP',
      `.I ${roff(argument.name())}`,
      roff(argumentNote(argument)),
    ]),
    ...command.options.filter((one) => !one.hidden).flatMap(option),
    ...(before === '' ? [] : ['.PP', roff(before)]),
    ...examples('.PP', shown),
  ];
}

function option(one: Option): readonly string[] {
  return ['.TP', `.B ${roff(one.flags)}`, roff(optionNote(one))];
}

function examples(heading: '.SH' | '.PP', lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return [];
  return [heading === '.SH' ? '.SH EXAMPLES' : '.PP', '.nf', ...lines.map((line) => `    ${roff(line)}`), '.fi'];
}

function withoutDot(text: string): string {
  return text.replace(/\.$/, '');
}

/** Escapes text for man(7): dashes, backslashes, backquotes, and control characters at the start of a line. */
function roff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('`', '\\(ga')
    .replace(/^(?=[.'])/gm, '\\&');
}
