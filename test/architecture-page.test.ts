import { existsSync, globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { boxesPage } from './boxes.ts';

const root = join(import.meta.dirname, '..');
const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
const quoted = [...text.matchAll(/`([^`\s]+)`/g)].map(([, words = '']) => words);

test('each path that ARCHITECTURE.md names is there', () => {
  const whole = quoted.filter((words) => /^(packages|test|tools|docs|examples|integrations)\/[^*:]*$/.test(words));
  const short = quoted.filter((words) =>
    /^(netfilter|bundle|cli|renderer|review|delivery|applier)\/[^*:…]*$/.test(words),
  );
  const paths = [...whole, ...short.map((words) => `packages/${words.replace('/', '/src/')}`)];
  expect(paths.length).toBeGreaterThan(30);
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test('each path that test/README.md names is there', () => {
  const readme = readFileSync(join(root, 'test/README.md'), 'utf8');
  const named = [...readme.matchAll(/`([a-z][^`\s]*\/[^`\s]*|[a-z-]+\.test\.ts)`/g)].map(([, words = '']) => words);
  const bases = ['', 'test/', 'test/netns/', 'packages/applier/src/'];
  const isThere = (words: string): boolean =>
    bases.some((base) => globSync(`${base}${words.replace(/NN$/, '')}*`, { cwd: root }).length > 0);
  expect(named.length).toBeGreaterThan(200);
  expect(named.filter((words) => !isThere(words))).toEqual([]);
});

test.each(['renderer', 'applier'])('ARCHITECTURE.md names each folder of packages/%s/src', (name) => {
  const folders = readdirSync(join(root, 'packages', name, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name !== 'testing')
    .map((entry) => entry.name);
  expect(folders.filter((folder) => !quoted.includes(folder))).toEqual([]);
});

test('ARCHITECTURE.md can be read in five minutes: at most 120 lines of at most 160 characters', () => {
  const lines = text.trimEnd().split('\n');
  expect(lines.length).toBeLessThanOrEqual(120);
  expect(lines.filter((line) => line.length > 160)).toEqual([]);
});

/** UPDATE_DOCS=1 draws them again. */
test('packages/README.md shows the boxes of each package, and no import leads back', () => {
  const page = join(root, 'packages/README.md');
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, boxesPage());
  expect(readFileSync(page, 'utf8')).toBe(boxesPage());
});
