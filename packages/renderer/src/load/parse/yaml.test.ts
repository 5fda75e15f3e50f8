import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadLimits } from './limits.ts';
import { Marks } from './marks.ts';
import { parseYaml } from './yaml.ts';

/** `offset CODE` of each error. */
function errors(text: string): string[] {
  return parseYaml(text).errors.map(({ offset, code }) => `${offset} ${code}`);
}

function nested(open: string, close: string, levels: number): string {
  return open.repeat(levels) + close.repeat(levels);
}

test.each([
  ['anchors and aliases', 'a: &x {b: 1}\nc: *x\n', { a: { b: 1 }, c: { b: 1 } }],
  ['a redefined anchor', 'a: &x 1\nb: &x 2\nc: *x\n', { a: 1, b: 2, c: 2 }],
  ['flow style with trailing commas', '{\n  a: "b",\n  c: [1,],\n}\n', { a: 'b', c: [1] }],
  ['folded and literal blocks', 'a: >-\n  b\n  c\nd: |2\n    e\n', { a: 'b c', d: '  e\n' }],
  ['numbers as keys, as JSON spells them', '80: a\n1.0: b\n', { '80': 'a', '1': 'b' }],
  ['an alias as a key', 'a: &x b\n*x : c\n', { a: 'b', b: 'c' }],
  ['core tags', 'a: !!str 80\nb: !!int "80"\n', { a: '80', b: 80 }],
  ['a document with a directive for YAML 1.1, as 1.2', '%YAML 1.1\n---\na: yess\nb: 0x10\n', { a: 'yess', b: 16 }],
])('reads %s', (_title, text, value) => {
  expect(parseYaml(text)).toEqual({ value, errors: [], doubts: [] });
});

// The values are those of kubectl: `YAMLToJSON` of sigs.k8s.io/yaml 1.6.
test.each([
  ['a map', 'a: &a {b: 1}\nc:\n  <<: *a\n', { c: { b: 1 } }],
  ['a map below a key that replaces one of it', 'a: &a {b: 1, d: 2}\nc:\n  <<: *a\n  d: 3\n', { c: { b: 1, d: 3 } }],
  [
    'a map with a value that is replaced as a whole',
    'a: &a {b: {e: 1}}\nc:\n  <<: *a\n  b: {d: 2}\n',
    { c: { b: { d: 2 } } },
  ],
  [
    'a list of maps, of which the first counts',
    'a: &a {b: 1}\nf: &f {b: 2, d: 4}\nc: {<<: [*a, *f]}\n',
    { c: { b: 1, d: 4 } },
  ],
  ['a merged map', 'a: &a {b: 1}\nd: &d {<<: *a, e: 2}\nc:\n  <<: *d\n', { c: { b: 1, e: 2 } }],
  ['a map in its place', 'c:\n  <<: {b: 1}\n', { c: { b: 1 } }],
  ['a map by a tag', 'c:\n  !!merge <<: {b: 1}\n', { c: { b: 1 } }],
  ['an empty list', 'c:\n  <<: []\n', { c: {} }],
  ['a key of the same value before it', 'a: &a {b: 1}\nc: {b: 1, <<: *a}\n', { c: { b: 1 } }],
  ['a map with a number as a key', 'a: &a {80: b}\nc: {<<: *a}\n', { c: { '80': 'b' } }],
  ['a map with an empty value', 'a: &a {b: ~}\nc: {<<: *a}\n', { c: { b: null } }],
  ['no quoted key', 'c:\n  "<<": {b: 1}\n', { c: { '<<': { b: 1 } } }],
])('merges %s', (_title, text, value) => {
  expect(parseYaml(text)).toMatchObject({ value, errors: [], doubts: [] });
  expect(Object.keys((parseYaml(text).value as typeof value).c)).toEqual(Object.keys(value.c));
});

test.each([
  ['a number', 'a:\n  <<: 1\n', ['5 YAML_SYNTAX']],
  ['nothing', 'a:\n  <<:\n', ['5 YAML_SYNTAX']],
  ['a list', 'a: &a [1]\nb: {<<: *a}\n', ['14 YAML_SYNTAX']],
  ['a list in a list', 'a: {<<: [[{b: 1}]]}\n', ['4 YAML_SYNTAX']],
  ['itself', 'a: &a\n  <<: *a\n', ['12 YAML_ALIAS_BOMB']],
  ['two maps by two keys', 'a: &a {b: 1}\nc:\n  <<: *a\n  <<: *a\n', ['27 YAML_DUPLICATE_KEY']],
])('refuses to merge %s, with one error', (_title, text, expected) => {
  expect(errors(text)).toEqual(expected);
});

test('refuses merges that stand for too many values', { timeout: 10_000 }, () => {
  const keys = (level: number): string =>
    Array.from({ length: 10 }, (_, index) => `k${level}_${index}: *l${level - 1}`).join(', ');
  const levels = Array.from({ length: 8 }, (_, at) => `l${at + 1}: &l${at + 1} {<<: *l${at}, ${keys(at + 1)}}`);
  expect(errors(`l0: &l0 {a: 1}\n${levels.join('\n')}\n`).map((one) => one.split(' ')[1])).toEqual(['YAML_ALIAS_BOMB']);
  const wide = Array.from({ length: 9_000 }, (_, index) => `k${index}: 1`).join(', ');
  const more = Array.from({ length: 2_000 }, (_, index) => `m${index}: 1`).join(', ');
  expect(errors(`a: &a {${wide}}\nb: {<<: *a, ${more}}\n`).map((one) => one.split(' ')[1])).toEqual([
    'INPUT_TOO_LARGE',
  ]);
});

test('reads __proto__ as an ordinary key', () => {
  const { value } = parseYaml('__proto__: {a: 1}\n');
  expect(Object.keys(value as object)).toEqual(['__proto__']);
  expect((value as { a?: unknown }).a).toBeUndefined();
});

test.each([
  ['an open quote', 'a: "b\nc: 1\n', ['6 YAML_SYNTAX']],
  ['tabs as indentation', 'a:\n\tb: 1\n', ['3 YAML_SYNTAX']],
  ['the first of two errors', 'a: @x\nb: `y\n', ['3 YAML_SYNTAX']],
  ['a second document', 'a: 1\n---\nb: 2\n', ['0 YAML_SYNTAX']],
  ['a control character', 'a: "\u0001"\n', ['4 YAML_SYNTAX']],
  ['several duplicate keys', 'a: 1\na: 2\nb: {c: 1, c: 2}\n', ['5 YAML_DUPLICATE_KEY', '20 YAML_DUPLICATE_KEY']],
  ['keys with the same value', '1: a\n"1": b\n', ['5 YAML_DUPLICATE_KEY']],
  ['a template', 'a: {{b}}\n', ['4 YAML_SYNTAX']],
  ['a list as a key', '? [a]\n: b\n', ['2 YAML_SYNTAX']],
  ['an alias without anchor', 'a: *x\n', ['3 YAML_SYNTAX']],
  ['a recursive alias', 'a: &x [*x]\n', ['7 YAML_ALIAS_BOMB']],
  ['65 nested maps', nested('{a: ', '}', 65), ['257 INPUT_TOO_LARGE']],
  ['65 lists on one line', `${'- '.repeat(66)}a\n`, ['130 INPUT_TOO_LARGE']],
  ['a million brackets', '['.repeat(1_000_000), ['71 INPUT_TOO_LARGE']],
  ['a million brackets closed in comments', '[ # ]\n'.repeat(1_000_000), ['426 INPUT_TOO_LARGE']],
  ['a million brackets closed in quotes', `x: ${'["]",'.repeat(1_000_000)}`, ['354 INPUT_TOO_LARGE']],
  ['a text of 5 million characters', `a: |\n${'  b\n'.repeat(1_250_000)}c: 1\n`, ['3 INPUT_TOO_LARGE']],
  ['a quoted one', `a: "${'b\n  '.repeat(1_250_000)}"\nc: 1\n`, ['3 INPUT_TOO_LARGE']],
  ['a key of 5 million characters', `${'b'.repeat(5_000_000)}: 1\n`, ['0 INPUT_TOO_LARGE']],
])('refuses %s', (_title, text, expected) => {
  expect(errors(text)).toEqual(expected);
});

/** A List of 1 MB, which is read in batches. */
function longList(tail = '', odd = 'name: a\n'): { text: string; oddAt: number } {
  const item = (name: string): string =>
    `- kind: Service\n  metadata:\n    name: ${name}\n  spec: {ports: [{port: 80}]}\n`;
  const many = Array.from({ length: 10_000 }, (_, index) => item(`web-${index}`));
  const half = `apiVersion: v1\nitems:\n${many.join('')}# a comment\n\n- `;
  return { text: `${half}${odd}${many.join('')}kind: List\n${tail}`, oddAt: half.length };
}

test('reads a long List as the yaml library does, with its places', () => {
  const { text, oddAt } = longList('metadata: {}\n');
  const marks = new Marks();
  const document = parseYaml(text, marks);
  expect(document.errors).toEqual([]);
  expect(document.value).toEqual(parse(text));
  expect(marks.find(['items', 10_000])).toBe(oddAt);
  const last = text.lastIndexOf('web-9999');
  expect(marks.find(['items', 20_000, 'metadata', 'name'])).toBe(last);
  expect(marks.find(['kind'])).toBe(text.lastIndexOf('List'));
});

test.each([
  ['an anchor of another item', '', 'a: &x 1\n- b: *x\n', []],
  ['a closing bracket at the column of its key', '', 'a: [\n  ]\n', []],
  ['a syntax error', '', 'a: @x\n', ['3 YAML_SYNTAX']],
  ['a quote that another item closes', '', 'a: "x\n- b"\n', ['6 YAML_SYNTAX']],
  ['a duplicate key', '', 'a: 1\n  a: 2\n', ['7 YAML_DUPLICATE_KEY']],
  [
    'items twice',
    'items: []\n',
    'a: 1\n',
    [`${longList('', 'a: 1\n').text.length - longList('', 'a: 1\n').oddAt} YAML_DUPLICATE_KEY`],
  ],
])('reads a long List with %s like a short one', (_title, tail, odd, expected) => {
  const { text, oddAt } = longList(tail, odd);
  const found = parseYaml(text, new Marks()).errors.map(({ offset, code }) => `${offset - oddAt} ${code}`);
  expect(found).toEqual(expected);
});

test('says the paths of ambiguous values in a long List', () => {
  const { text, oddAt } = longList('', 'a: yes\n');
  const [doubt, ...others] = parseYaml(text).doubts;
  expect([doubt?.path, doubt?.offset, others]).toEqual([['items', 10_000, 'a'], oddAt + 3, []]);
});

test('allows 64 levels, also with expanded aliases', () => {
  expect(errors(nested('{a: ', '}', 64))).toEqual([]);
  const chain = Array.from({ length: 80 }, (_, level) => `- &a${level} [${level > 0 ? `*a${level - 1}` : 1}]\n`);
  expect(errors(chain.slice(0, 60).join(''))).toEqual([]);
  expect(errors(chain.join(''))[0]).toMatch(/ INPUT_TOO_LARGE$/);
});

test('refuses an alias bomb before expanding it', () => {
  const levels = Array.from(
    { length: 20 },
    (_, level) =>
      `a${level}: &a${level} [${Array(9)
        .fill(level > 0 ? `*a${level - 1}` : 'x')
        .join(', ')}]\n`,
  );
  expect(errors(levels.join(''))).toEqual([expect.stringMatching(/ YAML_ALIAS_BOMB$/)]);
});

test('limits the keys of a map', () => {
  const keys = (count: number) => `{${Array.from({ length: count }, (_, key) => `k${key}: 1`).join(', ')}}`;
  expect(errors(keys(loadLimits.keysPerMapMax))).toEqual([]);
  expect(errors(keys(loadLimits.keysPerMapMax + 1))).toEqual(['0 INPUT_TOO_LARGE']);
});

test('refuses more lines, keys and values than it has memory for', () => {
  const lines = (count: number) => `a:\n${'- b\n'.repeat(count)}`;
  expect(errors(lines(1_000_000))).toEqual([]);
  expect(errors(lines(loadLimits.yamlTokensMax))).toEqual(['0 INPUT_TOO_LARGE']);
});

test('reads closing brackets at the column of their key, and keeps the places behind them', () => {
  const text = 'a:\n- b: [\n    1, # ]\n  ]\n  c: {\n  }\n  d: "]"\ne: f\n';
  const marks = new Marks();
  expect(parseYaml(text, marks)).toEqual({
    value: { a: [{ b: [1], c: {}, d: ']' }], e: 'f' },
    errors: [],
    doubts: [],
  });
  expect([marks.find(['a', 0, 'b', 0]), marks.find(['a', 0, 'c']), marks.find(['e'])]).toEqual(
    ['1', '{', 'f\n'].map((start) => text.indexOf(start)),
  );
});

test.each([
  ['a literal block', 'a: |\n  b\n', 3],
  ['a folded block with a comment', 'a:  >- # | x\n  b\n', 4],
  ['a block in a list', 'a:\n- |\n  b\n', 5],
])('places %s at its header', (_title, text, offset) => {
  const marks = new Marks();
  parseYaml(text, marks);
  expect(marks.find(text.includes('- |') ? ['a', 0] : ['a'])).toBe(offset);
});

test.each([
  ['values', 'a: [yes, 014, "yes", !!str no]\n', ['a.0', 'a.1']],
  ['keys', 'on: 1\n', ['']],
  ['values that look like merge keys', 'a: <<\n', ['a']],
  ['merges behind a key that they change', 'a: &a {b: 1}\nc: {b: 2, <<: *a}\n', ['c.<<']],
])('reports ambiguous %s with their path', (_title, text, paths) => {
  const { doubts } = parseYaml(text);
  expect(doubts.map((doubt) => doubt.path.join('.'))).toEqual(paths);
  expect(new Set(doubts.map((doubt) => doubt.code))).toEqual(new Set(['YAML_AMBIGUOUS_SCALAR']));
});

test('reports tags outside of the core schema and does not apply them', () => {
  const { value, doubts } = parseYaml('a: !!binary aGk=\nb: !vault x\n');
  expect(value).toEqual({ a: 'aGk=', b: 'x' });
  expect(doubts.map((doubt) => `${doubt.path.join('.')} ${doubt.code}`)).toEqual(['a YAML_SYNTAX', 'b YAML_SYNTAX']);
});
