import { CommanderError } from 'commander';
import { expect, test } from 'vitest';
import { colours } from './colour.ts';
import { examples } from './help.ts';
import { newProgram, usageProblem } from './program.ts';

/** A program of one command, what it prints, and the error of a call. */
function call(...words: readonly string[]) {
  let printed = '';
  let error: unknown;
  const program = newProgram('sluice', 'does things');
  Object.assign(program.configureOutput(), {
    writeOut: (text: string) => (printed += text),
    writeErr: (text: string) => (printed += text),
    getOutHelpWidth: () => 60,
  });
  examples(
    program.command('render').description('Renders. '.repeat(20)),
    ['render x'],
    'Exit codes: 0 done. '.repeat(9),
  );
  colours(program, words, { stdout: {}, stderr: {} });
  try {
    program.parse([...words], { from: 'user' });
  } catch (thrown) {
    error = thrown;
  }
  return { printed, problem: usageProblem(program, words, error as never) };
}

test('an unknown command names the program that has it', () => {
  const { printed, problem } = call('rollback');
  expect(printed).toContain(
    "error: unknown command 'rollback'; it is a command of the other program: sluiced rollback\n",
  );
  expect(problem.message).toBe("unknown command 'rollback'; it is a command of the other program: sluiced rollback");
});

test('an unknown command that its program has elsewhere says where', () => {
  const text = (...words: readonly string[]): string => {
    const program = newProgram('sluice', '');
    program.command('render');
    program.command('allocations').command('fix');
    let printed = '';
    const writeErr = (part: string): void => void (printed += part);
    for (const one of [program, ...program.commands]) one.configureOutput({ ...one.configureOutput(), writeErr });
    expect(() => program.parse([...words], { from: 'user' })).toThrow(CommanderError);
    return printed;
  };
  expect(text('allocations', 'render')).toContain("'render'; it is a command of its own: sluice render\n");
  expect(text('diff')).toContain("'diff' in the image of a node, whose sluice renders alone: use an installed one\n");
});

test('a misspelt command names the nearest', () => {
  expect(call('rendr').printed).toContain('(Did you mean render?)');
});

test('a help fits the terminal, and has no colours in a pipe', () => {
  const { printed } = call('render', '--help');
  expect(printed).toContain('Examples:\n  render x');
  expect(printed.split('\n').filter((line) => line.length > 60)).toEqual([]);
  expect(call('render', '--help', '--color=always').printed).toContain('\u001B[1mExamples:\u001B[22m');
});
