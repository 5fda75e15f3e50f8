import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readAvoidedForms } from './words.ts';

const root = join(import.meta.dirname, '..');
const page = 'docs/glossary.md';
const text = readFileSync(join(root, page), 'utf8');
const [terms = '', avoided = ''] = text.split('## Words to avoid');

/** The code of the packages and the pages, without the glossary; spaces instead of line breaks and hyphens. */
const used = globSync(['packages/*/src/**/*.ts', '{.,docs,docs/*,packages/*}/*.{md,yaml}'], { cwd: root })
  .filter((path) => path !== page)
  .map((path) => readFileSync(join(root, path), 'utf8'))
  .join('\n')
  .replaceAll(/[\s/*#-]+/g, ' ')
  .toLowerCase();

const bold = [...terms.matchAll(/\*\*([^*]+)\*\*/g)].map(([, term = '']) => term);

test('the glossary has its terms', () => {
  expect(bold.length).toBeGreaterThan(55);
  expect(bold.filter((term, index) => bold.indexOf(term) !== index)).toEqual([]);
});

test('each term of the glossary is used in code or pages', () => {
  const unused = bold.filter((term) => !new RegExp(`\\b${term.replaceAll('-', ' ').toLowerCase()}`).test(used));
  expect(unused).toEqual([]);
});

test('each row of the words to avoid says what to say instead, and why', () => {
  const rows = avoided.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| avoid |'));
  expect(rows.length).toBeGreaterThan(20);
  const cellsOf = (row: string): readonly string[] => row.slice('| '.length, -' |'.length).split(' | ');
  const isWhole = (row: string): boolean => cellsOf(row).filter((cell) => cell.trim() !== '').length === 3;
  expect(rows.filter((row) => !isWhole(row))).toEqual([]);
  const forms = readAvoidedForms(text).map(({ form }) => form);
  expect(forms.filter((form, index) => forms.indexOf(form) !== index)).toEqual([]);
  expect(bold.filter((term) => forms.includes(term.toLowerCase()))).toEqual([]);
});
