// @module-tag quick
import { expect, test } from 'vitest';
import { readCounted } from './rule-counters.ts';

test.each([
  ['[12:720] -A FORWARD -s 10.0.0.0/8 -j DROP', ['-A FORWARD -s 10.0.0.0/8 -j DROP', 12]],
  [':FORWARD DROP [34:2040]', ['-P FORWARD DROP', 34]],
  [':DOCKER - [0:0]', ['', 0]],
  ['# Completed', ['', 0]],
] as const)('reads what was counted in %s', (line, expected) => {
  expect(readCounted(line)).toEqual(expected);
});
