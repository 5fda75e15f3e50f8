import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { load } from './load.ts';
import { readSources } from './sources.ts';

const corpus = join(import.meta.dirname, '../../../../test/corpus');

async function* nothing(): AsyncGenerator<Uint8Array> {}

const { sources, problems: unreadable } = await readSources([corpus], { recursive: true, stdin: nothing() });
const index = readFileSync(join(corpus, 'SOURCES.md'), 'utf8');

/** What SOURCES.md says about a file, by its name: the note, and the number of objects of each kind. */
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

/** Files that cannot be loaded, with the places of their problems. Other NEGATIVE notes are about what fields say. */
const refused = new Map([
  [
    'frontend.yaml',
    [
      '15:3 YAML_SYNTAX',
      '29:3 YAML_SYNTAX',
      '151:1 YAML_SYNTAX',
      '156:36 YAML_SYNTAX',
      '182:3 YAML_SYNTAX',
      '225:5 YAML_SYNTAX',
      '241:3 YAML_SYNTAX',
      '272:5 YAML_SYNTAX',
    ],
  ],
  ['etcd-service-template.yaml', ['7:12 YAML_SYNTAX', '14:12 YAML_SYNTAX']],
  ['frontend-service-v1beta3.json', ['3:17 API_VERSION_UNKNOWN']],
  ['duplicate_property.yaml', ['16:7 YAML_DUPLICATE_KEY']],
]);
/** NEGATIVE for a reason that is not about documents and objects: fields, or kinds that Sluice passes over. */
const refusedLater = ['deployment-multi-service.yaml', 'list_invalid.yaml', 'multi_invalid.yaml'];

test('the corpus is complete and readable', () => {
  expect(unreadable).toEqual([]);
  expect(sources.map(nameOf).toSorted()).toEqual([...notes.keys()].toSorted());
});

test('every NEGATIVE note of SOURCES.md is accounted for', () => {
  const negative = [...notes].filter(([, { note }]) => note.includes('NEGATIVE')).map(([name]) => name);
  expect([...refused.keys(), ...refusedLater]).toEqual(expect.arrayContaining(negative));
});

test.each(sources.map((source) => [nameOf(source), source] as const))(
  '%s loads, or is refused as its note says',
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

test('every object of the corpus says where its name stands', () => {
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
