import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isAlias, isMap, isScalar, isSeq, type Node, parseDocument, type Tags } from 'yaml';
import type { Path } from '../../render/model/kube.ts';
import { splitDocuments } from './documents.ts';
import { Marks } from './marks.ts';
import { yamlDocument } from './yaml.fixture.ts';
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

test('reads generated and mutated documents like the yaml library', {
  timeout: 120_000,
}, () => {
  const small = documents.map(({ text }) => text).filter((text) => text.length < 3000);
  let read = 0;
  const property = fc.property(yamlDocument(small), (text) => {
    if (parseYaml(text).errors.length === 0) read++;
    expect(disagreement(text)).toBeUndefined();
  });
  const { numRuns } = runs(10_000);
  fc.assert(property, { numRuns });
  // Otherwise the property would hold for a parser that refuses everything.
  expect(read / numRuns).toBeGreaterThan(0.4);
});

const core = { version: '1.2', schema: 'core', merge: true, resolveKnownTags: false, prettyErrors: false } as const;
/**
 * As kubectl reads: without timestamps, which JSON does not have, and with `.`, a key of managedFields, and `e3` as texts,
 * which the library's pattern for 1.1 takes for numbers without digits.
 */
const yaml11 = {
  version: '1.1',
  prettyErrors: false,
  logLevel: 'silent',
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

/** Forms that the two libraries read differently; YAML 1.2.2 agrees with js-yaml on the first two. */
const knownDifferences = [
  // 5.4: a carriage return is a line break.
  /\r/,
  // 8.1.1.2: with an indentation indicator, spaces beyond the indentation are text, also alone on the line.
  /[|>][-+]?[1-9][-+]?[ \t]*(?:#.*)?\n(?:[ \t]*\n)* /,
  // An indented marker or directive is one for js-yaml, and `...` before a document ends none.
  /^\ufeff?[ \t]+(?:---|%)|^\.\.\./m,
];

/** How a value or a place differs from that of the `yaml` library, or a value from YAML 1.1; undefined if none does. */
function disagreement(text: string): string | undefined {
  const marks = new Marks();
  const { value, errors, doubts } = parseYaml(text, marks);
  if (value === undefined || errors.length > 0) return undefined;
  if (knownDifferences.some((form) => form.test(text))) return undefined;
  const document = parseDocument(text, core);
  if (document.errors.length > 0) return `accepts invalid YAML: ${document.errors[0]?.message} in ${text}`;
  if (!isDeepStrictEqual(value, document.toJS()))
    return `reads another value than YAML 1.2 from ${text}: ${JSON.stringify(value)}, not ${JSON.stringify(document.toJS())}`;
  if (doubts.length > 0) return undefined;
  if (!isDeepStrictEqual(value, parseDocument(text, yaml11).toJS()))
    return `reads another value than YAML 1.1 from ${text}`;
  // The yaml library places a map behind the anchor of its first key.
  if (text.includes('&')) return undefined;
  const moved = [...offsets(document.contents, [])].find(([path, offset]) => marks.find(path) !== offset);
  return moved && `places ${moved[0].join('.')} at ${marks.find(moved[0])}, not at ${moved[1]}, in ${text}`;
}

/** The offsets of all values but null: `key:` has no value with a place. */
function* offsets(node: Node | null, path: Path): Generator<[Path, number]> {
  if (node === null || isAlias(node) || (isScalar(node) && node.value === null)) return;
  yield [path, node.range?.[0] ?? 0];
  if (isSeq(node))
    for (const [index, item] of node.items.entries()) yield* offsets(item as Node | null, [...path, index]);
  if (isMap(node))
    for (const { key, value } of node.items)
      if (isScalar(key)) yield* offsets(value as Node | null, [...path, String(key.value)]);
}
