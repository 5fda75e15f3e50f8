// @module-tag quick
import { expect, test } from 'vitest';
import { addCounted, readCounted } from './examine.ts';

test.each([
  ['[12:720] -A FORWARD -s 10.0.0.0/8 -j DROP', ['-A FORWARD -s 10.0.0.0/8 -j DROP', 12]],
  [':FORWARD DROP [34:2040]', ['-P FORWARD DROP', 34]],
  [':DOCKER - [0:0]', ['', 0]],
  ['# Completed', ['', 0]],
] as const)('reads what was counted in %s', (line, expected) => {
  expect(readCounted(line)).toEqual(expected);
});

test('the packets of a rule that a chain has twice are those of both', () => {
  const command = 'iptables-nft -t filter';
  const found = new Map<string, number>();
  for (const line of ['[12:720] -A FORWARD -j DROP', '[0:0] -A FORWARD -j DROP', '[7:70] -A INPUT -j DROP'])
    addCounted(line, command, new Set([`${command} -A FORWARD -j DROP`]), found);
  expect([...found]).toEqual([[`${command} -A FORWARD -j DROP`, 12]]);
});
