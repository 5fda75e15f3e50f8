import { describe, expect, test } from 'vitest';
import { answersOf, type Question } from './matrix/cluster.ts';
import { type Column, columns } from './matrix/columns.ts';
import { fieldRows } from './matrix/fields.ts';
import type { Answer, FieldRow } from './matrix/rows.ts';

/**
 * Each field of the input by its packets, in every data plane. The same questions are asked without the field: a plane that forgets it
 * gives the same answers to both, and the test fails.
 */

const words = (question: Question): string =>
  'from' in question
    ? `${question.from} → ${question.to}${question.remembers === undefined ? '' : ` as a client of ${question.remembers}`}`
    : Object.entries(question).flat().join(' ');

const of = (answer: Answer, { mode }: Column): string => (typeof answer === 'string' ? answer : answer[mode]);

/** Questions with their answers, as lines. */
function asked({ given = {}, unset = {}, set, checks }: FieldRow, isSet: boolean, column: Column): readonly string[] {
  const answer = answersOf([given, isSet ? set : unset], column);
  return checks.map(({ ask }) => `${words(ask)}: ${answer(ask)}`);
}

const expected = ({ checks }: FieldRow, part: 'set' | 'unset', column: Column): readonly string[] =>
  checks.map((check) => `${words(check.ask)}: ${of(check[part], column)}`);

describe.each(fieldRows.filter(({ checks }) => checks.length > 0))('$field', (row) => {
  test.each(columns)('in $name', (column) => {
    const found = asked(row, true, column);
    expect(found).toEqual(expected(row, 'set', column));
    const without = asked(row, false, column);
    expect(without).toEqual(expected(row, 'unset', column));
    const isForgotten = found.join('\n') === without.join('\n');
    expect(isForgotten).toBe(row.differs?.[column.mode] !== undefined);
  });
});
