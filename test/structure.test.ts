import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { expect, test } from 'vitest';

/** Bounds of what a reader has to hold in mind: files, folders, classes. The linter bounds functions. */

const root = join(import.meta.dirname, '../packages');

const sources: ReadonlyMap<string, string> = new Map(
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => /^[a-z]+\/src\/.*\.ts$/.test(path) && !/\.(test|fixture)\.ts$|\.generated\.ts$/.test(path))
    .map((path) => [path, readFileSync(join(root, path), 'utf8')]),
);

/** The files that a file imports, also for types alone. Code that is loaded on demand is no part of its importer. */
function importsOf(path: string): readonly string[] {
  const found = (sources.get(path) ?? '').matchAll(/^(?:import|export)\b[^;]*? from '(\.[^']+)';/gm);
  return [...found].map(([, target = '']) => normalize(join(dirname(path), target)));
}

/** The groups of files that import each other, each in order of name (Tarjan's strongly connected components). */
function circles(): readonly (readonly string[])[] {
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (path: string): void => {
    order.set(path, order.size);
    low.set(path, order.get(path) as number);
    stack.push(path);
    for (const next of importsOf(path)) {
      if (!sources.has(next)) continue;
      if (!order.has(next)) visit(next);
      if (stack.includes(next)) low.set(path, Math.min(low.get(path) as number, low.get(next) as number));
    }
    if (low.get(path) !== order.get(path)) return;
    const group = stack.splice(stack.indexOf(path));
    if (group.length > 1) found.push(group.toSorted());
  };
  for (const path of sources.keys()) if (!order.has(path)) visit(path);
  return found;
}

test('imports have no cycles', () => {
  expect(circles()).toEqual([]);
});

test('a folder has at most 20 source files', () => {
  const folders = Map.groupBy(sources.keys(), (path) => dirname(path));
  const large = [...folders].filter(([, files]) => files.length > 20);
  expect(large.map(([folder, files]) => `${folder}: ${files.length}`)).toEqual([]);
});

test('a file has at most 400 lines', () => {
  const long = [...sources].filter(([, text]) => text.split('\n').length - 1 > 400);
  expect(long.map(([path, text]) => `${path}: ${text.split('\n').length - 1}`)).toEqual([]);
});

interface ClassSize {
  readonly name: string;
  readonly lines: number;
  readonly fields: number;
}

/** The classes of a file that `biome format` has formatted: their members are indented by two spaces. */
function classesOf(text: string): readonly ClassSize[] {
  const classes = text.matchAll(/^(?:export )?(?:abstract )?class (\w+)[\s\S]*?^\}/gm);
  return [...classes].map(([body, name = '']) => ({
    name,
    lines: body.split('\n').length,
    fields: [...body.matchAll(/^ {2}(?:private |readonly |override )*#?\w+[?!]?(?::(?:[^=;\n]|=>)*)?(?: =(?!>)|;)/gm)]
      .length,
  }));
}

test('a class of more than 200 lines has at most ten fields', () => {
  const large = [...sources].flatMap(([path, text]) =>
    classesOf(text)
      .filter(({ lines, fields }) => lines > 200 && fields > 10)
      .map(({ name, lines, fields }) => `${path} ${name}: ${lines} lines, ${fields} fields`),
  );
  expect(large).toEqual([]);
});

test('counts the fields of a class', () => {
  const text = `class A {\n  readonly #a: string;\n  #b = 1;\n  c?: () => void;\n  #d: Map<string, string> = new Map();\n  e(): void {\n    const x = 1;\n  }\n}\n`;
  expect(classesOf(text)).toMatchObject([{ name: 'A', fields: 4 }]);
});
