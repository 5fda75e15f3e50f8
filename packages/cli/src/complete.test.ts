import { Command, Option } from 'commander';
import { expect, test } from 'vitest';
import { shellCommands } from './commands.ts';
import { complete, type KnownNames } from './complete.ts';

const names: KnownNames = {
  '--node': ([dir = 'rendered']) => (dir === 'rendered' ? ['node-a', 'node-b'] : [`only-${dir}`]),
  GENERATION: () => ['7', '8'],
};

/** A program with every kind of command, option and argument. */
function program(): Command {
  const whole = new Command('tool');
  const show = whole.command('show').argument('[DIR]').option('-n, --node <NAME>').option('--text <WORDS>');
  show.option('-c, --config <FILE>').addOption(new Option('--tool <TOOL>').choices(['iptables', 'ipset']));
  show.addOption(new Option('--secret').hideHelp());
  whole.command('find').argument('<COMMAND...>').option('--from <REV>');
  whole.command('extend').argument('<SECONDS>');
  whole.command('back').argument('[GENERATION]');
  whole.command('diff').argument('<OLD>').argument('<NEW>');
  const below = whole.command('numbers');
  below.command('fix');
  below.command('print');
  shellCommands(whole, names, () => {});
  return whole;
}

test.each([
  ['a verb', ['sh'], ['show'], false],
  ['a verb below a verb', ['numbers', ''], ['fix', 'print', 'help'], false],
  ['no command that the help hides', ['comp'], ['completion'], false],
  ['an option of the command', ['show', '--to'], ['--tool'], false],
  ['no option that the help hides', ['show', '--s'], [], false],
  ['the option that every command has', ['show', '--h'], ['--help'], false],
  ['a name that the program knows', ['show', '--node', ''], ['node-a', 'node-b'], false],
  ['a name, by the short form of the option', ['show', '-n', ''], ['node-a', 'node-b'], false],
  ['a name that depends on the operand before', ['show', 'out', '--node', 'o'], ['only-out'], false],
  ['a name for an argument', ['back', ''], ['7', '8'], false],
  ['a choice of an option', ['show', '--tool', 'ipt'], ['iptables'], false],
  ['a choice of an argument', ['completion', 'b'], ['bash'], false],
  ['a file, for an option', ['show', '--config', ''], [], true],
  ['a directory, after an option with its value', ['show', '--tool', 'ipset', ''], [], true],
  ['a directory, after an option with its value in one word', ['show', '--tool=ipset', ''], [], true],
  ['a directory, for the second of two arguments', ['diff', 'a', ''], [], true],
  ['nothing, for free text', ['show', '--text', ''], [], false],
  ['nothing, for a number', ['extend', ''], [], false],
  ['a verb behind --', ['find', '--from', 'x', '--', 'sho'], ['show'], false],
  ['a name of a command behind --', ['find', '--', 'show', '--node', ''], ['node-a', 'node-b'], false],
  ['a directory behind the -- of another command', ['diff', '--', ''], [], true],
  ['nothing after the last argument', ['show', 'rendered', ''], [], false],
] as const)('the last word becomes %s', (_title, words, values, files) => {
  const found = complete(program(), words, names);
  expect({ values: found.words.map(({ value }) => value), files: found.files }).toEqual({ values, files });
});

test('`complete` prints one candidate per line with its description, and a marker for file names', async () => {
  const printed: string[] = [];
  const whole = new Command('tool');
  whole.command('show').summary('print what a node loads').argument('[DIR]');
  shellCommands(whole, {}, (text) => printed.push(text));
  await whole.parseAsync(['complete', '--', 'sh'], { from: 'user' });
  await whole.parseAsync(['complete', '--', 'show', ''], { from: 'user' });
  expect(printed).toEqual(['show\tprint what a node loads\n', ':files\n']);
});
