import { expect, test } from 'vitest';
import { BAIL, parseSubset } from './subset.ts';

test.each([
  ['a map in a map', 'a:\n  b: 1\n', { a: { b: 1 } }],
  ['a list at the column of its key', 'a:\n- 1\n- 2\nb: x\n', { a: [1, 2], b: 'x' }],
  ['a list deeper than its key', 'a:\n  - 1\n', { a: [1] }],
  ['maps in a list', '- a: 1\n  b: 2\n- a: 3\n', [{ a: 1, b: 2 }, { a: 3 }]],
  ['a list in a list', '- - 1\n  - 2\n-\n  - 3\n', [[1, 2], [3]]],
  ['missing values', 'a:\nb: null\nc: ~\n-d:\n', { a: null, b: null, c: null, '-d': null }],
  ['quoted scalars', `a: "80"\nb: 'true'\n"c": ""\n`, { a: '80', b: 'true', c: '' }],
  ['empty flow collections', 'a: {}\nb: [] # none\n', { a: {}, b: [] }],
  ['comments and blank lines', '# x\na: 1 # y\n\n  # z\nb: c#d\n', { a: 1, b: 'c#d' }],
  ['a literal block', 'a: |\n  {"x": 1}\n\n   y\nb: |-\n  z\n', { a: '{"x": 1}\n\n y\n', b: 'z' }],
  [
    'keys with colons',
    'f:metadata:\n  k:{"port":80}:\n    .: {}\n',
    { 'f:metadata': { 'k:{"port":80}': { '.': {} } } },
  ],
  [
    'addresses and dates',
    'a: 10.0.0.1\nb: fd00::1\nc: 2018-02-12T15:48:44Z\n',
    { a: '10.0.0.1', b: 'fd00::1', c: '2018-02-12T15:48:44Z' },
  ],
  ['keys of the prototype', 'constructor: 1\ntoString: 2\n', { constructor: 1, toString: 2 }],
])('reads %s', (_title, text, value) => {
  expect(parseSubset(text)).toEqual(value);
});

test.each([
  ['a duplicate key', 'a: 1\na: 2\n'],
  ['a tab', 'a:\t1\n'],
  ['a carriage return', 'a: 1\rb: 2\n'],
  ['a scalar of two lines with a blank one between', 'a: b\n\n  c\n'],
  ['a scalar of two lines with a map in the second', 'a: b\n  c: d\n'],
  ['an anchor', 'a: &x 1\n'],
  ['an alias', 'a: *x\n'],
  ['a tag', 'a: !!str 1\n'],
  ['a folded block', 'a: >\n  b\n'],
  ['a literal block with an indentation indicator', 'a: |2\n   b\n'],
  ['an escape that is not in JSON', 'a: "\\x41"\n'],
  ['an escape in two lines', 'a: "b\\n\n  c"\n'],
  ['a quoted scalar that is not indented', `a:\n  b: 'c\n  d'\n`],
  ['a flow map', 'a: {b: 1}\n'],
  ['an ambiguous value', 'a: yes\n'],
  ['an ambiguous key', 'on: 1\n'],
  ['a key that is a number', '80: 1\n'],
  ['a merge key', '<<: 1\n'],
  ['the key __proto__', '__proto__: 1\n'],
  ['a nested map on one line', 'a: b: 1\n'],
  ['bad indentation', 'a:\n    b: 1\n  c: 2\n'],
  ['a scalar as the document', 'a\n'],
  ['a directive', '%YAML 1.2\n---\na: 1\n'],
  ['content on the line of the marker', '--- a: 1\n'],
  ['nothing', ''],
  ['65 levels', Array.from({ length: 65 }, (_, level) => `${' '.repeat(level)}a:\n`).join('')],
  ['10,001 keys', Array.from({ length: 10_001 }, (_, key) => `k${key}: 1\n`).join('')],
])('leaves %s to the general parser', (_title, text) => {
  expect(parseSubset(text)).toBe(BAIL);
});
