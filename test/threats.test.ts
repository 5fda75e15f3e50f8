import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '..');
const page = readFileSync(join(root, 'docs/threats.md'), 'utf8');
/** The test file of rows that name none. */
const usual = 'packages/applier/src/inbox/release-gate.test.ts';

/** The files in the last column of a row, and titles of tests in them. */
const rows = page
  .split('\n')
  .filter((line) => /^\| [^|]+ \| [^|]+ \| .*`.* \|$/.test(line))
  .slice(1)
  .map((line) => {
    const [attack = '', , named = ''] = line.slice('| '.length, -' |'.length).split(' | ');
    const words = [...named.matchAll(/`([^`]+)`/g)].map((match) => match[1] as string);
    const files = words.filter((word) => word.endsWith('.test.ts'));
    const titles = words.filter((word) => !word.endsWith('.test.ts')).map((word) => word.replace(/ …$/, ''));
    return { attack, files: [usual, ...files], titles };
  });

test('the page has a row for each attack', () => {
  expect(rows.length).toBeGreaterThan(25);
});

test.each(rows)('a test covers: $attack', ({ files, titles }) => {
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([]);
  const texts = files.map((file) => readFileSync(join(root, file), 'utf8')).join('\n');
  for (const title of titles) expect(texts).toContain(title);
});
