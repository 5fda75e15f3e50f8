import { pino } from 'pino';
import { expect, test } from 'vitest';
import { formedStream, type LogForm, logForm } from './log.ts';

/** What one line of a log becomes. */
function logged(form: LogForm, level: 'info' | 'warn' | 'error' | 'fatal'): string {
  let text = '';
  const stream = formedStream(form, { write: (line) => void (text += line) });
  pino({ base: null, timestamp: () => ',"time":1000' }, stream)[level]({ steps: 2, why: 'a "b"\nc' }, 'said');
  return text;
}

test.each([
  ['fatal', '<2>{"level":60,'],
  ['error', '<3>{"level":50,'],
  ['warn', '<4>{"level":40,'],
  ['info', '<6>{"level":30,'],
] as const)('the journal gets the priority of %s, and JSON on one line', (level, start) => {
  const text = logged('journal', level);
  expect(text.startsWith(start)).toBe(true);
  expect(JSON.parse(text.slice(3))).toMatchObject({ steps: 2, why: 'a "b"\nc', msg: 'said' });
  expect(text.indexOf('\n')).toBe(text.length - 1);
});

test('a terminal gets words', () => {
  expect(logged('terminal', 'warn')).toBe('00:00:01 WARN  said steps=2 why=a "b"\nc\n');
});

test.each([
  ['a terminal', {}, true, 'terminal'],
  ['the journal', { JOURNAL_STREAM: '8:1' }, false, 'journal'],
  ['a file', {}, false, 'plain'],
] as const)('%s is told apart', (_title, environment, isTerminal, form) => {
  expect(logForm(environment, isTerminal)).toBe(form);
});
