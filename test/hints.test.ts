import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { installedFiles } from '../tools/package/tree.ts';

const root = join(import.meta.dirname, '..');

/** String literals of everything that is shipped: the texts of messages, hints, helps and generated files. */
const texts = readdirSync(join(root, 'packages'), { recursive: true, encoding: 'utf8' })
  .filter((path) =>
    /^(?:applier|renderer|review|delivery|sluice|bundle|cli)\/src\/.*(?<!\.test|\.fixture)\.ts$/.test(path),
  )
  .flatMap((path) => {
    const code = readFileSync(join(root, 'packages', path), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
    return [...code.matchAll(/'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g)].map(([text]) => ({
      path,
      text,
    }));
  });

const named = (form: RegExp): readonly { readonly path: string; readonly name: string }[] =>
  texts.flatMap(({ path, text }) => [...text.matchAll(form)].map(([name]) => ({ path, name })));

test('the packages install every file below /usr/share that messages name', () => {
  const names = named(/\/usr\/share\/(?:doc\/)?sluice\/[-\w/.]*\w/g);
  const installed = installedFiles(root);
  expect(names.filter(({ name }) => !installed.includes(name))).toEqual([]);
  // The search finds at least one.
  expect(new Set(names.map(({ name }) => name)).size).toBeGreaterThanOrEqual(4);
});

test('the packages install every picture that an installed page shows', () => {
  const installed = installedFiles(root);
  const pages = installed.flatMap((path) => /^\/usr\/share\/doc\/sluice\/(.*\.md)$/.exec(path)?.[1] ?? []);
  const shown = pages
    .map((page) => join('docs', page))
    .filter((page) => existsSync(join(root, page)))
    .flatMap((page) =>
      [...readFileSync(join(root, page), 'utf8').matchAll(/!\[[^\]]*\]\(([^):]+)\)/g)].map(([, target = '']) =>
        join('/usr/share/doc/sluice', dirname(page).slice('docs'.length), target),
      ),
    );
  expect(shown.filter((path) => !installed.includes(path))).toEqual([]);
  // The search finds at least one.
  expect(shown.length).toBeGreaterThan(0);
});

test('no message names a path of the checkout, which no node has', () => {
  expect(named(/(?<![-\w/.])(?:docs|examples|packaging|packages|deploy|test|tools)\/[-\w/.]+/g)).toEqual([]);
});

test('the packages install every file below /usr/share that scripts and units name', () => {
  const folders = ['packaging/debian', 'packages/applier/systemd'];
  const files = folders.flatMap((folder) => readdirSync(join(root, folder)).map((name) => join(root, folder, name)));
  const names = files.flatMap((file) => [
    ...readFileSync(file, 'utf8').matchAll(/\/usr\/share\/(?:doc\/)?sluice\/[-\w/.]*\w/g),
  ]);
  expect(names.map(([name]) => name).filter((name) => !installedFiles(root).includes(name))).toEqual([]);
});
