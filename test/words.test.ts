import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { exportedNames, findAvoided, prose, readAvoidedForms, type Reader, sentences, walls } from './words.ts';

const root = join(import.meta.dirname, '..');
const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');
const forms = readAvoidedForms(textOf('docs/glossary.md'));

const exclude = ['**/node_modules/**', 'test/corpus/**', 'test/words{,.test}.ts', 'docs/glossary.md'];
const code = globSync('{packages,test,tools}/**/*.ts', { cwd: root, exclude });
const pages = globSync('{*.md,{docs,packages,test,examples,integrations,deploy,packaging}/**/*.md}', {
  cwd: root,
  exclude,
});

/** What operators read beside messages: units, scripts, commented configs, man pages. */
const shipped = globSync(
  [
    'dev',
    'packages/applier/systemd/*',
    'packaging/**/*.*',
    '{deploy,integrations,examples}/**/*.{sh,yaml,yml}',
    'docs/sluiced.yaml',
    'docs/man/*',
  ],
  { cwd: root, exclude: [...exclude, 'examples/**/out/**'] },
);

/** Without the codes of alarms in a query of Prometheus: a code keeps its word. */
function beyondCodes(source: string): ReturnType<Reader> {
  return prose(source.replaceAll(/\bcode[!=]~?"[^"]*"/g, 'code'));
}

const kinds: readonly (readonly [what: string, paths: readonly string[], reader: Reader])[] = [
  ['messages, helps and titles of tests', code, sentences],
  ['exported names', code, exportedNames],
  ['pages', pages, prose],
  ['units, scripts, configs and man pages', shipped, beyondCodes],
];

test('the glossary lists the forms', () => {
  expect(forms.length).toBeGreaterThan(50);
});

test.each(kinds)('%s have no form that the glossary avoids', (_what, paths, reader) => {
  expect(paths.length).toBeGreaterThan(30);
  const found = paths.flatMap((path) => findAvoided(path, textOf(path), reader, forms));
  expect(found.map(({ at, form, say }) => `${at}: "${form}", say: ${say}`)).toEqual([]);
});

/** Pages without a wall. Of the changelog what is not released yet counts. */
const plain = [
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'test/README.md',
  ...globSync('docs/{apply,limits*,render,review}.md', { cwd: root }),
];

const wallsOf = (path: string): readonly string[] => walls(path, textOf(path).split('\n## 0.1.0\n')[0] ?? '');

test.each(plain)('%s has no line or cell of over 200 characters, and no sentence of over 30 words', (path) => {
  expect(wallsOf(path)).toEqual([]);
});

test('all pages have no more of these than they had', () => {
  expect(pages).toEqual(expect.arrayContaining(plain));
  expect(pages.flatMap(wallsOf).length).toBeLessThanOrEqual(861);
});

test.each([
  ['a line', 'x'.repeat(201), 'f:1: 201 characters'],
  ['a cell', `| a | b |\n|---|---|\n| a | ${'x'.repeat(201)} | c |`, 'f:3: 201 characters'],
  [
    'a sentence over two lines',
    `One.\n${'word '.repeat(15)}\n${'word '.repeat(15)}\`code of two\`. Two.`,
    'f: 31 words: ',
  ],
])('%s that is too long is found', (_what, page, found) => {
  expect(walls('f', page)).toEqual([expect.stringContaining(found)]);
});

test('code, targets of links, and sentences of several items and cells are not too long', () => {
  const words = 'word '.repeat(16);
  const page = `\`\`\`\n${words.repeat(3)}\n\`\`\`\n- ${words}\n- ${words}\n| ${words} | ${words} |\n[a](${'x'.repeat(201)})`;
  expect(walls('f', page)).toEqual([]);
});

describe('an avoided form is found', () => {
  const avoided = readAvoidedForms(
    '\n## Words to avoid\n\n| avoid | say | why |\n|---|---|---|\n| way back / a shelf | rollback | names nothing |\n',
  );
  test.each<readonly [string, Reader, string, string[]]>([
    [
      'in a message, over two lines of a template',
      sentences,
      'const a = `first\nthe way\n back ${b}`; // way back',
      ['f:2'],
    ],
    ['in the title of a test', sentences, "\ntest('A way back', () => {})", ['f:2']],
    [
      'in an exported name',
      exportedNames,
      'const wayBack = 1;\nexport function wayBackTo() {}\nexport const myWayBack = 2;',
      ['f:2', 'f:3'],
    ],
    ['in a page, outside of code', prose, 'A shelf.\n\n```\na shelf\n```\n`a shelf`, a shelfful', ['f:1']],
  ])('%s', (_title, read, source, found) => {
    expect(findAvoided('f', source, read, avoided).map(({ at }) => at)).toEqual(found);
  });
});
