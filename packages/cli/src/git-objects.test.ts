import { expect, test } from 'vitest';
import { isRegular, readBatch, readTreeLines } from './git-objects.ts';

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

test('ends where the output is cut', () => {
  expect([...readBatch(Buffer.from(`${id('a')} blo`))]).toEqual([]);
});
