import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { outputOption, outWords, pathOption } from './format.ts';

const programWith = (done: (output: unknown) => void): Command => {
  const program = new Command('p').exitOverride().configureOutput({ writeErr() {} });
  const command = (name: string): Command =>
    program
      .command(name)
      .exitOverride()
      .configureOutput({ writeErr() {} })
      .argument('[WORDS...]');
  command('write')
    .addOption(pathOption('DIR', 'where'))
    .action((_, { output }) => done(output));
  command('print')
    .addOption(outputOption())
    .action((_, { output }) => done(output));
  command('page')
    .addOption(outputOption())
    .option('--out <FILE>')
    .action((_, { out }) => done(out));
  return program;
};

function outputOf(...words: readonly string[]): unknown {
  let seen: unknown;
  const program = programWith((output) => (seen = output));
  program.parse(outWords(program, words), { from: 'user' });
  return seen;
}

describe('a path to write to', () => {
  test.each([['-o'], ['--output'], ['--out']])('%s', (option) => expect(outputOf('write', option, 'dir')).toBe('dir'));
  test('--out=dir', () => expect(outputOf('write', '--out=dir')).toBe('dir'));
  test('is needed', () => expect(() => outputOf('write')).toThrow('--output'));
  test('is not empty', () => expect(() => outputOf('write', '-o', '')).toThrow('empty'));
  test.each([['json'], ['yaml'], ['text']])('is not the name of a format: %s', (name) => {
    expect(() => outputOf('write', '-o', name)).toThrow(`write ./${name} for a path of this name`);
    expect(outputOf('write', '-o', `./${name}`)).toBe(`./${name}`);
  });
});

test('a word behind -- stays', () => {
  const program = programWith(() => {});
  expect(outWords(program, ['write', '-o', 'd', '--', '--out'])).toEqual(['write', '-o', 'd', '--', '--out']);
});

test('--out stays where a command has it, and where -o is a format', () => {
  expect(outputOf('page', '--out', 'f')).toBe('f');
  expect(outputOf('print', '-o', 'json')).toBe('json');
  expect(() => outputOf('print', '--out', 'x')).toThrow('unknown option');
});
