/** What the help of a program knows, for the pages that are made of it. */
import type { EventEmitter } from 'node:events';
import { stripVTControlCharacters } from 'node:util';
import type { Argument, Command, Option } from 'commander';

/** The commands that do something, in the order of the help. */
export function leaves(command: Command): readonly Command[] {
  const subs = command.createHelp().visibleCommands(command);
  return subs.flatMap((sub) => (sub.name() === 'help' ? [] : sub.commands.length > 0 ? leaves(sub) : [sub]));
}

/** The heading of the help under which a command of the program, or its parent, is: `Render`. */
export function groupOf(command: Command): string {
  const { parent } = command;
  return parent === null || parent.parent === null ? command.helpGroup().replace(/:$/, '') : groupOf(parent);
}

/** `sluice allocations prune` */
export function fullName(command: Command): string {
  return command.parent === null ? command.name() : `${fullName(command.parent)} ${command.name()}`;
}

/** What follows the name of a command: the options that it needs, `[options]`, its arguments. */
export function usageOf(command: Command): readonly string[] {
  const named = command.usage().replace('[options]', '').trim();
  const required = command.options.filter((one) => one.mandatory).map(spelling);
  return [...required, '[options]', named].filter((part) => part !== '');
}

/** `-f <FILE>` */
function spelling(one: Option): string {
  const value = one.flags.includes('<') ? ` ${one.flags.slice(one.flags.indexOf('<'))}` : '';
  return `${one.short ?? one.long}${value}`;
}

/** What an option is for, with its choices and its default. */
export function optionNote(one: Option): string {
  const choices = one.argChoices === undefined ? [] : [`(${one.argChoices.join(', ')})`];
  return [one.description, ...choices, ...defaultOf(one.defaultValue)].join(' ');
}

/** What an argument is for, with its default. */
export function argumentNote(argument: Argument): string {
  return [argument.description, ...defaultOf(argument.defaultValue)].join(' ');
}

function defaultOf(value: unknown): readonly string[] {
  return typeof value === 'string' ? [`(default: ${value})`] : [];
}

/** What the help shows after a command's options: commander passes it to those who listen to this event. */
export function afterHelp(command: Command): { readonly before: string; readonly examples: readonly string[] } {
  let text = '';
  // All commands share the object: a page wraps its texts by itself.
  Object.assign(command.configureOutput(), { getOutHelpWidth: () => 10_000 });
  // Commander is an EventEmitter, which its types leave out.
  (command as unknown as EventEmitter).emit('afterHelp', {
    error: false,
    command,
    write: (part: string) => (text += part),
  });
  const [before = '', shown = ''] = stripVTControlCharacters(text).split('Examples:\n');
  const lines = shown.split('\n').map((line) => line.replace(/^ {2}/, ''));
  return { before: before.trim(), examples: lines.filter((line) => line !== '') };
}
