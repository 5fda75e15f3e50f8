import { expect, test } from 'vitest';
import { columns } from './columns.ts';

const rows = [
  ['NAME', 'COUNT', 'WHY'],
  ['a', '1000', ''],
  ['longer', '7', 'none', 'a mark'],
];

test('aligns columns, and leaves no spaces at the ends of lines', () => {
  expect(columns(rows)).toBe('NAME    COUNT  WHY\na       1000\nlonger  7      none  a mark\n');
  expect(columns([])).toBe('');
});

test('puts numbers to the right', () => {
  expect(
    columns(
      rows.map((row) => row.slice(0, 2)),
      true,
    ),
  ).toBe('NAME    COUNT\na        1000\nlonger      7\n');
});
