import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseDocument, type Tags } from 'yaml';
import type { Json, Path } from '../../render/kube.ts';
import { splitDocuments } from './documents.ts';
import { Marks } from './marks.ts';
import { BAIL, parseSubset } from './subset.ts';
import { yamlDocument } from './subset.fixture.ts';
import { parseYaml } from './yaml.ts';

const corpus = join(import.meta.dirname, '../../../../../test/corpus');
const documents = readdirSync(corpus, { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.ya?ml$/.test(name))
  .toSorted()
  .flatMap((name) => splitDocuments(name, readFileSync(join(corpus, name), 'utf8')));

test('reads corpus documents like the yaml library', () => {
  const disagreements = documents.map((document) => disagreement(document.text)).filter((found) => found !== undefined);
  expect(disagreements).toEqual([]);
});

test('accepts most documents of the corpus with Services, Endpoints, EndpointSlices and Nodes', () => {
  const relevant = documents.filter(({ text }) => /^kind: (?:Service|Endpoints|EndpointSlice|Node|List)$/m.test(text));
  const taken = relevant.filter(({ text }) => parseSubset(text) !== BAIL);
  expect(taken.length / relevant.length).toBeGreaterThan(0.9);
});

test('reads generated and mutated documents like the yaml library', {
  timeout: 120_000,
}, () => {
  const small = documents.map(({ text }) => text).filter((text) => text.length < 3000);
  let taken = 0;
  const property = fc.property(yamlDocument(small), (text) => {
    if (parseSubset(text) !== BAIL) taken++;
    expect(disagreement(text)).toBeUndefined();
  });
  const { numRuns } = runs(10_000);
  fc.assert(property, { numRuns });
  // Otherwise the property would hold for a parser that refuses everything; it is about a third.
  expect(taken / numRuns).toBeGreaterThan(0.2);
});

const core = { version: '1.2', schema: 'core', prettyErrors: false } as const;
/**
 * As kubectl reads: without timestamps, which JSON does not have, and with `.`, a key of managedFields, and `e3` as texts,
 * which the library's pattern for 1.1 takes for numbers without digits.
 */
const yaml11 = {
  version: '1.1',
  prettyErrors: false,
  customTags: (tags: Tags) =>
    tags
      .filter((tag) => typeof tag === 'string' || !tag.tag.endsWith(':timestamp'))
      .map((tag) => {
        if (typeof tag !== 'object' || !('test' in tag) || tag.test === undefined) return tag;
        return ['.', 'e3'].some((text) => tag.test?.test(text)) ? { ...tag, test: withDigit(tag.test) } : tag;
      }),
} as const;

function withDigit(pattern: RegExp): RegExp {
  return new RegExp(`^(?=[-+]?\\.?[0-9])(?:${pattern.source})`);
}

/** How the subset parser differs from YAML 1.2, YAML 1.1 or the positions of the general parser; undefined if it does not. */
function disagreement(text: string): string | undefined {
  const marks = new Marks();
  const value = parseSubset(text, marks);
  if (value === BAIL) return undefined;
  const document = parseDocument(text, core);
  if (document.errors.length > 0) return `accepts invalid YAML: ${document.errors[0]?.message} in ${text}`;
  if (!isDeepStrictEqual(value, document.toJS())) return `reads another value than YAML 1.2 from ${text}`;
  if (!isDeepStrictEqual(value, parseDocument(text, yaml11).toJS()))
    return `reads another value than YAML 1.1 from ${text}`;
  const general = new Marks();
  const { errors, doubts } = parseYaml(text, general);
  if (errors.length + doubts.length > 0) return `accepts what the general parser refuses: ${text}`;
  const moved = paths(value, []).find((path) => marks.find(path) !== general.find(path));
  return moved && `places ${moved.join('.')} at ${marks.find(moved)}, not at ${general.find(moved)}, in ${text}`;
}

/** The paths of all values but null: `key:` has no value with a place. */
function paths(value: Json, path: Path): Path[] {
  if (value === null) return [];
  if (typeof value !== 'object') return [path];
  const children = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [path, ...children.flatMap(([key, child]) => paths(child as Json, [...path, key]))];
}
