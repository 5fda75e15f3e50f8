import { expect, test } from 'vitest';
import { isRegular, objectsIn, readBatch, readTreeLines } from './git-objects.ts';

const id = (digit: string): string => digit.repeat(40);
const line = (text: string): Buffer => Buffer.from(`${text}\0`);

test.each([
  ['a file', `100644 blob ${id('a')}\tnodes/node-a/node.yaml`, { size: undefined, path: 'nodes/node-a/node.yaml' }],
  ['a file with its size', `100644 blob ${id('a')}      12\tx`, { size: 12, path: 'x' }],
  ['a name with a tab and a line feed', `100755 blob ${id('a')}\tx\ty\nz`, { path: 'x\ty\nz' }],
  ['an object without a size', `160000 commit ${id('a')}       -\tsub`, { mode: '160000', size: undefined }],
])('reads %s', (_what, text, expected) => {
  expect(readTreeLines(line(text))).toMatchObject([{ id: id('a'), ...expected }]);
});

test('refuses a line of another form', () => {
  expect(() => readTreeLines(line('100644 blob x'))).toThrow('is not a line of a tree');
});

test.each([
  ['100644', true],
  ['100755', true],
  ['120000', false],
  ['160000', false],
])('of mode %s is a regular file: %s', (mode, isOne) => {
  expect(isRegular({ mode })).toBe(isOne);
});

test('finds objects by their sizes, whatever bytes they have, and missing ones', () => {
  const output = Buffer.concat([
    Buffer.from(`${id('a')} blob 4\n`),
    Buffer.from([0x0a, 0xff, 0x20, 0x0a]),
    Buffer.from(`\n${id('b')} missing\n${id('c')} blob 0\n\n`),
  ]);
  expect([...readBatch(output)].map(({ bytes, ...rest }) => ({ ...rest, bytes: [...bytes] }))).toEqual([
    { id: id('a'), kind: 'blob', bytes: [0x0a, 0xff, 0x20, 0x0a] },
    { id: id('b'), kind: 'missing', bytes: [] },
    { id: id('c'), kind: 'blob', bytes: [] },
  ]);
});

test.each(['', ' blo', ' blob 12\nonly some'])('leaves out an object whose output is truncated: %j', (rest) => {
  expect([...readBatch(Buffer.from(`${id('a')} blob 0\n\n${id('b')}${rest}`))].map((one) => one.id)).toEqual([id('a')]);
});

const first = `${id('a')} blob 2\nab\n`;

test.each([
  ['removed since its size was read', `${id('b')} missing\n`],
  ['truncated', `${id('b')} blob 5\nab`],
  ['of another kind', `${id('b')} tree 2\nab\n`],
  ['another one', `${id('c')} blob 2\nab\n`],
  ['not printed at all', ''],
])('takes an object for an error that is %s', (_what, second) => {
  const output = Buffer.from(`${first}${second}`);
  expect(() => objectsIn(output, 'blob', [id('a'), id('b')])).toThrow(`git has no blob ${id('b')}`);
  expect(objectsIn(output, 'blob', [id('a')]).map(String)).toEqual(['ab']);
});
