import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { load } from './load.ts';
import { readSources } from './sources.ts';

const corpus = join(import.meta.dirname, '../../../../test/corpus');

async function* nothing(): AsyncGenerator<Uint8Array> {}

const { sources, problems: unreadable } = await readSources([corpus], { recursive: true, stdin: nothing() });
const index = readFileSync(join(corpus, 'SOURCES.md'), 'utf8');

/** The notes of SOURCES.md by file name, with the number of objects of each kind. */
const notes = new Map(
  [...index.matchAll(/^\| (\S+\.(?:ya?ml|json)) \|.*?\| ([^|]*) \| ([^|]*) \|$/gm)].map(
    ([, name = '', note = '', counts = '']) => [
      name,
      {
        note,
        counts: new Map([...counts.matchAll(/(?<=^|\s)(\w+)=(\d+)/g)].map((match) => [match[1], Number(match[2])])),
      },
    ],
  ),
);

/** Files that cannot be loaded, with the places of their problems. Other NEGATIVE notes are about fields. */
const refused = new Map([
  [
    'frontend.yaml',
    [
      '15:3 YAML_SYNTAX',
      '29:3 YAML_SYNTAX',
      '151:3 YAML_SYNTAX',
      '156:36 YAML_SYNTAX',
      '182:5 YAML_SYNTAX',
      '225:7 YAML_SYNTAX',
      '241:5 YAML_SYNTAX',
      '272:5 YAML_SYNTAX',
    ],
  ],
  ['etcd-service-template.yaml', ['7:12 YAML_SYNTAX', '14:12 YAML_SYNTAX']],
  ['frontend-service-v1beta3.json', ['3:17 API_VERSION_UNKNOWN']],
  ['duplicate_property.yaml', ['16:7 YAML_DUPLICATE_KEY']],
]);
/** NEGATIVE because of fields, or of kinds that Sluice ignores. */
const refusedLater = ['deployment-multi-service.yaml', 'list_invalid.yaml', 'multi_invalid.yaml'];

test('the corpus is complete and readable', () => {
  expect(unreadable).toEqual([]);
  expect(sources.map(nameOf).toSorted()).toEqual([...notes.keys()].toSorted());
});

test('covers every NEGATIVE note of SOURCES.md', () => {
  const negative = [...notes].filter(([, { note }]) => note.includes('NEGATIVE')).map(([name]) => name);
  expect([...refused.keys(), ...refusedLater]).toEqual(expect.arrayContaining(negative));
});

test.each(sources.map((source) => [nameOf(source), source] as const))(
  'loads %s or refuses it according to its note',
  (name, source) => {
    const { objects, problems } = load([source]);
    expect(problems.map(({ at, code }) => `${at?.line}:${at?.column} ${code}`)).toEqual(refused.get(name) ?? []);
    if (problems.length > 0) return;
    for (const kind of ['Service', 'Endpoints', 'EndpointSlice', 'Node']) {
      const found = objects.filter((object) => object.kind === kind);
      expect([kind, found.length]).toEqual([kind, notes.get(name)?.counts.get(kind) ?? 0]);
    }
  },
);

test('finds the place of the name of every object of the corpus', () => {
  const { objects } = load(sources);
  const texts = new Map(sources.map(({ file, text }) => [file, text.split('\n')]));
  expect(objects.length).toBeGreaterThan(400);
  for (const { origin, value } of objects) {
    const { file, line, column } = origin.place(['metadata', 'name']);
    const { name } = value['metadata'] as { name: string };
    expect(
      texts
        .get(file)
        ?.[line - 1]?.slice(column - 1)
        .replace(/^["']/, '')
        .slice(0, name.length),
    ).toBe(name);
  }
});

function nameOf({ file }: { readonly file: string }): string {
  return file.slice(file.lastIndexOf('/') + 1);
}
