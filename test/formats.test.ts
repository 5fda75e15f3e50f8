import { expect, test } from 'vitest';
import { isFormatOption, formats } from '../packages/cli/src/format.ts';
import { commands } from './commands.fixture.ts';

/** Commands whose `-o` is a path: there the format is `--report`. */
const writesOutput = [
  'sluice render',
  'sluice snapshot',
  'sluice watch',
  'sluice release',
  'sluice pack',
  'sluice pull',
  'sluiced observe',
];

test('the commands of both programs are found', () => {
  expect(commands.length).toBeGreaterThan(40);
  expect(commands.filter(({ title }) => writesOutput.includes(title))).toHaveLength(writesOutput.length);
});

test.each(commands)('$title takes text and json, with -o unless that is a path', ({ command, title }) => {
  const options = command.options.filter(isFormatOption);
  expect(options.length).toBeGreaterThan(0);
  expect(options[0]?.flags).toBe(writesOutput.includes(title) ? '--report <FORMAT>' : '-o, --output <FORMAT>');
  expect(options[0]?.argChoices).toEqual(expect.arrayContaining([...formats]));
  // The page is the only purpose of `report`.
  expect(options[0]?.defaultValue).toBe(title === 'sluice report' ? 'html' : 'text');
});
