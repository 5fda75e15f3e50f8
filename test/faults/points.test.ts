// @module-tag quick
import { expect, test } from 'vitest';
import { type Point, printPoint, readPoint } from './points.ts';

test('reads a point back as it was printed', () => {
  const points: readonly Point[] = [
    { at: 'program', call: 'openat', path: '/state/journal', nth: 3, fault: 'ENOSPC+' },
    { at: 'program', call: 'fsync', path: undefined, nth: 1, fault: 'kill' },
    { at: 'tool', tool: 7, call: 'sendmsg', nth: 2, fault: 'orphan' },
  ];
  expect(points.map(printPoint).map(readPoint)).toEqual(points);
});
