import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Json, type Path, parseJson } from '../../render/model/kube.ts';
import { countJsonKeys, markJson, splitJson } from './json.ts';
import { checkJson } from './parse.ts';
import { Marks } from './marks.ts';

test('counts keys in the text, but not inside strings', () => {
  expect(countJsonKeys('{"a": 1, "a" : {"b\\"": ": \\"x\\":"}, "c": ["d"]}')).toBe(4);
});

test('finds offsets despite blanks and escapes', () => {
  const text = ' {"a\\u0041" : [ 1, {"b": "x\\"]"} ,[]], "c":null}';
  const marks = new Marks();
  markJson(text, 0, marks);
  const at = (...path: Path) => text.slice(marks.find(path));
  expect(at()).toBe(text.slice(1));
  expect(at('aA', 0)).toMatch(/^1,/);
  expect(at('aA', 1, 'b')).toMatch(/^"x\\"\]"/);
  expect(at('aA', 2)).toMatch(/^\[\]/);
  expect(at('c')).toBe('null}');
  expect(at('aA', 1, 'missing', 0)).toMatch(/^\{"b"/);
});

test('counts keys and finds offsets in any JSON', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(0, 1, 4), (value, spaces) => {
      const text = JSON.stringify(value, undefined, spaces);
      expect(checkJson(value as Json, text)).toEqual([]);
      const marks = new Marks();
      markJson(text, 0, marks);
      for (const [path, part] of leaves(value as Json, [])) {
        expect(text.startsWith(JSON.stringify(part), marks.find(path))).toBe(true);
      }
    }),
  );
});

function leaves(value: Json, path: Path): [Path, Json][] {
  if (typeof value !== 'object' || value === null) return [[path, value]];
  return Object.entries(value).flatMap(([key, child]) =>
    leaves(child, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

test.each([
  ['a duplicate key', '{"a": 1, "b": {"c": 1, "c": 2}}', ['23 YAML_DUPLICATE_KEY b.c']],
  ['a duplicate key in two spellings', '{"a": 1, "\\u0061": 2}', ['9 YAML_DUPLICATE_KEY a']],
  ['a duplicate __proto__', '{"__proto__": 1, "__proto__": 2}', ['17 YAML_DUPLICATE_KEY __proto__']],
  ['65 levels', `${'['.repeat(65)}${']'.repeat(65)}`, ['0 INPUT_TOO_LARGE ']],
  ['20,000 levels', `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`, ['0 INPUT_TOO_LARGE ']],
])('reports %s', (_title, text, expected) => {
  const findings = checkJson(parseJson(text) ?? null, text);
  expect(findings.map(({ offset, code, path }) => `${offset} ${code} ${path.join('.')}`)).toEqual(expected);
});

test('splits consecutive values by their brackets', () => {
  const text = '{"a": "}{"}\n[1, {}] {"b": 2}';
  expect(splitJson(text, 0).map(({ from, to }) => text.slice(from, to))).toEqual([
    '{"a": "}{"}',
    '[1, {}]',
    '{"b": 2}',
  ]);
});
