import { expect, test } from 'vitest';
import { isJournal, withPriorities } from './journal.ts';
import type { LogLevel, LogSettings } from './log-options.ts';
import { makeLog } from './log.ts';

/** A log whose lines are kept. */
function open(settings: Partial<LogSettings> = {}, isForJournal = false) {
  const lines: string[] = [];
  const write = (line: string): number => lines.push(line);
  const log = makeLog({ format: 'json', level: 'info', ...settings }, { write, isJournal: isForJournal });
  return { log, lines };
}

const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

test.each([
  ['fatal', 'critical', 2],
  ['error', 'error', 3],
  ['warn', 'warning', 4],
  ['info', 'info', 6],
  ['debug', 'debug', 7],
] as const)(
  'an entry of %s has level %s by name, an RFC 3339 time, and priority %d in the journal',
  (call, level, n) => {
    for (const isForJournal of [false, true]) {
      const { log, lines } = open({ level: 'debug' }, isForJournal);
      log[call]({ steps: 2, why: 'a "b"\nc' }, 'said');
      const prefix = isForJournal ? `<${n}>` : '';
      expect(lines[0]?.startsWith(`${prefix}{`)).toBe(true);
      expect(JSON.parse(lines[0]!.slice(prefix.length))).toEqual({
        time: expect.stringMatching(time),
        level,
        steps: 2,
        why: 'a "b"\nc',
        msg: 'said',
      });
    }
  },
);

test.each([
  [false, /^\S+Z warning: said twice steps=2 hint="run \\"x\\"\\nagain" list=\[1\]\n$/],
  [true, /^<4>warning: said twice steps=2 hint="run \\"x\\"\\nagain" list=\[1\]\n$/],
])('a text entry is one line for any content (journal: %s)', (isForJournal, form) => {
  const { log, lines } = open({ format: 'text' }, isForJournal);
  log.warn({ steps: 2, hint: 'run "x"\nagain', list: [1] }, 'said\n    twice');
  expect(lines).toEqual([expect.stringMatching(form)]);
});

test.each([
  ['text', false],
  ['text', true],
  ['json', false],
] as const)('no message and no detail steers the terminal (%s, journal: %s)', (format, isForJournal) => {
  const { log, lines } = open({ format }, isForJournal);
  const bad = '\u001b[31m\u009b2J\u202e\rforged';
  log.warn({ [`key${bad}`]: bad, list: [bad] }, `answered "${bad}"`);
  expect(lines).toEqual([expect.stringMatching(/^[\x20-\x7e]+\n$/)]);
  expect(lines[0]).toContain('\\u001b[31m');
});

test.each([
  ['debug', 5],
  ['info', 4],
  ['warning', 3],
  ['error', 2],
] as const)('level %s lets %d of the five levels through', (level, count) => {
  const { log, lines } = open({ level });
  for (const call of ['debug', 'info', 'warn', 'error', 'fatal'] as const) log[call]({}, 'said');
  expect(lines).toHaveLength(count);
});

test('the level can be changed while the program runs, and each change is logged', () => {
  const { log, lines } = open({ level: 'warning' });
  const seen: LogLevel[] = [];
  for (const step of ['lessDetail', 'lessDetail', 'moreDetail', 'moreDetail', 'moreDetail', 'moreDetail'] as const) {
    log[step]();
    seen.push(log.level);
  }
  expect(seen).toEqual(['error', 'error', 'warning', 'info', 'debug', 'debug']);
  expect(lines.map((line) => (JSON.parse(line) as { logLevel: string }).logLevel)).toEqual(seen);
  log.debug({}, 'at the new level');
  expect(lines).toHaveLength(7);
});

test.each([
  ['the stream that systemd connected', '8:41', true],
  ['a stream that was redirected since', '8:42', false],
  ['another device', '9:41', false],
  ['no systemd', undefined, false],
] as const)('the journal reads %s: %s', (_title, variable, expected) => {
  expect(isJournal(variable, () => ({ dev: 8, ino: 41 }))).toBe(expected);
});

test('a closed stream is not connected to the journal', () => {
  const closed = (): never => {
    throw new Error('EBADF');
  };
  expect(isJournal('8:41', closed)).toBe(false);
});

test.each([
  ['error: Cannot go on [CODE]\n    mend it\n', '<3>error: Cannot go on [CODE]\n<3>    mend it\n'],
  ['a.yaml:1:2: warning: odd [CODE]\n    look\n', '<4>a.yaml:1:2: warning: odd [CODE]\n<4>    look\n'],
  ['rendered: 11 files\n', '<6>rendered: 11 files\n'],
  [
    'error: Cannot\n    mend\nwarning: odd\n    look\ndone\n',
    '<3>error: Cannot\n<3>    mend\n<4>warning: odd\n<4>    look\n<6>done\n',
  ],
])('lines of a problem have its priority in the journal: %j', (text, expected) => {
  expect(withPriorities(text)).toBe(expected);
});
