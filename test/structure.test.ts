import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import type { Command } from 'commander';
import { expect, test } from 'vitest';
import { buildProgram as buildSluiced } from '../packages/applier/src/program.ts';
import { buildProgram as buildSluice } from '../packages/sluice/src/program.ts';

/** Bounds of what a reader has to hold in mind: files, folders, classes. The linter bounds functions. */

const root = join(import.meta.dirname, '../packages');

const sources: ReadonlyMap<string, string> = new Map(
  readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => /^[a-z]+\/src\/.*\.ts$/.test(path) && !/\.(test|fixture)\.ts$|\.generated\.ts$/.test(path))
    .map((path) => [path, readFileSync(join(root, path), 'utf8')]),
);

/** The files that a file imports, also for types alone. Code that is loaded on demand is no part of its importer. */
function importsOf(path: string): readonly string[] {
  const found = (sources.get(path) ?? '').matchAll(
    /^(?:import|export)\b[^;]*? from '(?:(\.[^']+)|@sluice\/([a-z]+)\/([^']+))';/gm,
  );
  return [...found].map(([, target, name = '', file = '']) =>
    target === undefined ? `${name}/src/${file}` : normalize(join(dirname(path), target)),
  );
}

/** The groups of nodes of a graph that lead to each other, each in order (Tarjan's strongly connected components). */
function circles(targetsOf: ReadonlyMap<string, Iterable<string>>): readonly (readonly string[])[] {
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (node: string): void => {
    order.set(node, order.size);
    low.set(node, order.get(node) as number);
    stack.push(node);
    for (const next of targetsOf.get(node) ?? []) {
      if (!targetsOf.has(next)) continue;
      if (!order.has(next)) visit(next);
      if (stack.includes(next)) low.set(node, Math.min(low.get(node) as number, low.get(next) as number));
    }
    if (low.get(node) !== order.get(node)) return;
    const group = stack.splice(stack.indexOf(node));
    if (group.length > 1) found.push(group.toSorted());
  };
  for (const node of targetsOf.keys()) if (!order.has(node)) visit(node);
  return found;
}

test('imports have no cycles', () => {
  expect(circles(new Map([...sources.keys()].map((path) => [path, importsOf(path)])))).toEqual([]);
});

test('folders have no cycles', () => {
  // A file that lies in no folder of a package is a place of its own.
  const placeOf = (path: string): string => (path.split('/').length === 3 ? path : dirname(path));
  const places = new Map([...sources.keys()].map((path) => [placeOf(path), new Set<string>()]));
  for (const path of sources.keys())
    for (const target of importsOf(path)) places.get(placeOf(path))?.add(placeOf(target));
  expect(circles(places)).toEqual([]);
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

/**
 * The total, because bounds of one file are also met by making more files. Who raises a number says in the same commit what the lines or
 * verbs are for, and why nothing else could go; who takes something away lowers it.
 */
const totals = { lines: 114_867, files: 1_065, verbs: 67 };

test('all of it has no more lines, files and verbs than were agreed', () => {
  const lines = [...sources.values()].reduce((sum, text) => sum + text.split('\n').length - 1, 0);
  const verbsOf = ({ commands }: Command): number => commands.reduce((sum, one) => sum + 1 + verbsOf(one), 0);
  const verbs = verbsOf(buildSluice()) + verbsOf(buildSluiced());
  const now = { lines, files: sources.size, verbs };
  const over = Object.entries(now).filter(([what, count]) => count > totals[what as keyof typeof now]);
  expect(over).toEqual([]);
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
