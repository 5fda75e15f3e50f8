import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { readResourceList } from '../load/krm/resource-list.ts';
import { printResourceList, type FunctionResult, resultsOf } from './krm.ts';

const result: FunctionResult = { message: 'a: b', severity: 'error', tags: { code: 'PORT_INVALID' } };
const head = 'apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n';
const items = 'items:\n- a: 0o17 # kept\n  b: |\n    results: no\n\n- c: yes\n';

function printed(text: string, results: readonly FunctionResult[] = []): string {
  const list = readResourceList({ file: 'stdin', text });
  if (!('text' in list)) throw new Error(list[0]?.message);
  return printResourceList(list, results);
}

test.each([
  ['at the end', `${head}${items}results:\n- message: old\n  tags: {}\n`],
  ['in the middle', `${head}results:\n  - message: |\n      old\n\n      items: none\n# a remark\n${items}`],
  ['in an earlier form', `${head}"results":\n  name: f\n  results:\n  - message: old\n${items}`],
  ['that are empty', `${head}results: []\n${items}`],
  ['that are missing', `${head}${items}`],
])('replaces results %s and keeps every byte of the items', (_title, text) => {
  expect(printed(text)).toBe(`${head}${items}`);
  expect(printed(text, [result])).toMatch(new RegExp(`^${head}[^]*results:\n  - message: "?'?a: b`));
  expect(parse(printed(text, [result]))).toEqual({ ...parse(`${head}${items}`), results: [result] });
});

test.each([
  ['JSON', '{"kind":"ResourceList","items":[{"results":[1]}],"results":[{"message":"old"}]}'],
  ['YAML in flow style', '{kind: ResourceList, items: [{results: [1]}]}'],
])('prints %s as JSON', (_title, text) => {
  expect(JSON.parse(printed(text, [result]))).toEqual({
    kind: 'ResourceList',
    items: [{ results: [1] }],
    results: [result],
  });
});

test('adds a missing newline before results', () => {
  expect(parse(printed(`${head}items: []`, [result])).results).toEqual([result]);
});

test.each([
  ['nothing', '', 'it contains no document'],
  ['two lists', `${head}---\n${head}`, 'it contains 2 documents'],
  ['a Service', 'apiVersion: v1\nkind: Service\n', 'its kind is not a list'],
  ['items that are a map', `${head}items: {}\n`, 'its items are not a list'],
  ['a functionConfig that is a text', `${head}functionConfig: x\n`, 'its functionConfig is not a map'],
])('refuses %s as a ResourceList', (_title, text, why) => {
  expect(readResourceList({ file: 'stdin', text })).toMatchObject([
    { code: 'OBJECT_MALFORMED', message: expect.stringContaining(why) },
  ]);
});

test('refers a problem to the item that contains it, wherever the functionConfig is', () => {
  const config = 'functionConfig:\n  kind: SluiceFunction\n';
  const list = readResourceList({ file: 'stdin', text: `${head}items:\n- kind: A\n- kind: B\n${config}` });
  if (!('text' in list)) throw new Error(list[0]?.message);
  const about = (line: number): unknown =>
    resultsOf(list, 'stdin', [
      {
        code: 'FIELD_TYPE',
        level: 'warning',
        at: { file: 'stdin', line, column: 5 },
        message: 'Cannot',
        hint: 'Do',
      },
    ])[0]?.resourceRef;
  expect([4, 5, 7].map(about)).toEqual([{ kind: 'A' }, { kind: 'B' }, { kind: 'SluiceFunction' }]);
});
