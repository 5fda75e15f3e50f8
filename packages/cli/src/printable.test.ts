import { expect, test } from 'vitest';
import { printable } from './printable.ts';

test.each([
  ['an escape sequence', 'a\u001b[2Jb', 'a\\u001b[2Jb'],
  ['a carriage return and a backspace', 'bad\r\u0008good', 'bad\\u000d\\u0008good'],
  ['a C1 control sequence', '\u009b31m', '\\u009b31m'],
  ['DEL', '\u007f', '\\u007f'],
  ['a change of direction', 'a\u202eb\u2066c', 'a\\u202eb\\u2066c'],
  ['separators of lines', 'a\u2028b\u2029c', 'a\\u2028b\\u2029c'],
  ['a tag beyond the basic plane', '\u{e0041}', '\\udb40\\udc41'],
  ['line ends and tabs', 'a\n\tb\n', 'a\n\tb\n'],
  ['text of any language', 'Größe ✓ 日本 🚀', 'Größe ✓ 日本 🚀'],
])('prints %s as text', (_title, text, expected) => {
  expect(printable(text)).toBe(expected);
});

test('a JSON document means the same', () => {
  const value = { why: 'a\u001b[31m\u009b\u202e\u{e0041}\n', path: 'x\u007f' };
  const text = printable(JSON.stringify(value, undefined, 2));
  expect(text).toMatch(/^[\n\x20-\x7e]*$/);
  expect(JSON.parse(text)).toEqual(value);
});
