import { expect, test } from 'vitest';
import { differingFiles } from './differing-files.ts';
import type { ResolvedVirtualFile } from './line.ts';

const file = (path: string): ResolvedVirtualFile => ({ path, lines: [] });
const [a, b, c, d] = [file('a'), file('b'), file('c'), file('d')];
const otherB = file('b');

test.each([
  ['nothing differs', [a, b], [a, b], []],
  ['a file changed', [a, b, c], [a, otherB, c], [{ path: 'b', before: b, after: otherB }]],
  ['a file came first: those after it moved, and are the same', [b, c], [a, b, c], [{ path: 'a', after: a }]],
  ['a file left', [a, b, c], [a, c], [{ path: 'b', before: b }]],
  [
    'one left, another came',
    [a, b, c],
    [b, c, d],
    [
      { path: 'd', after: d },
      { path: 'a', before: a },
    ],
  ],
  [
    'one changed, and one before it left',
    [a, b, c],
    [otherB, c],
    [
      { path: 'b', before: b, after: otherB },
      { path: 'a', before: a },
    ],
  ],
  [
    'all are new',
    [],
    [a, b],
    [
      { path: 'a', after: a },
      { path: 'b', after: b },
    ],
  ],
] as const)('%s', (_title, before, after, differing) => {
  expect(differingFiles(before, after)).toEqual(differing);
});
