import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { modeFacts, modes } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { kubeProxyVersions } from '../packages/renderer/src/render/model/version.ts';
import { fieldEffects } from '../packages/renderer/src/load/schema/effect.ts';
import { kubeProxySchema } from '../packages/renderer/src/load/schema/kubeproxy.ts';
import { knownFields } from '../packages/renderer/src/render/read/known-fields.ts';
import { type Column, columns } from './matrix/columns.ts';
import { fieldRows } from './matrix/fields.ts';
import { nodeColumns, promises } from './matrix/promises.ts';
import type { Cell, FieldRow } from './matrix/rows.ts';
import { differenceBy, versionRows } from './matrix/versions.ts';
import { withoutMeaning } from './matrix/without-meaning.ts';

/**
 * What is not in this table is not promised, and what is in it has a test in each column. A field that the code begins to read, or a mode
 * that it gets, fails here until there is a row or a column for it.
 */

const root = join(import.meta.dirname, '..');
const page = join(root, 'docs/matrix.md');

/** Cells without a test. The number may only become smaller. */
const missingMax = 0;

/** Every field that a row must have, or a reason not to. */
const fields: readonly string[] = [
  ...(['Service', 'EndpointSlice'] as const).flatMap((kind) => knownFields(kind).map((field) => `${kind} ${field}`)),
  ...[...fieldEffects(kubeProxySchema)]
    .filter(([, effect]) => effect.kind === 'followed')
    .map(([field]) => `KubeProxyConfiguration ${field}`),
  // A gate has its own effect; the group of all has one as well.
  ...[...fieldEffects({ type: 'object', properties: kubeProxySchema.properties?.['featureGates']?.properties ?? {} })]
    .filter(([, effect]) => effect.kind === 'followed')
    .map(([gate]) => `KubeProxyConfiguration featureGates.${gate}`),
];

test('every field of the input is a row, or has no meaning for a reason', () => {
  const named = [...fieldRows.map(({ field }) => field), ...Object.keys(withoutMeaning)];
  expect(named.toSorted()).toEqual([...new Set(fields)].toSorted());
});

test('every mode has a column', () => {
  expect([...new Set(columns.map(({ mode }) => mode))].toSorted()).toEqual([...modes].toSorted());
  expect(Object.keys(modeFacts).toSorted()).toEqual([...modes].toSorted());
});

/** The cell of a field: its packets, or why they do not differ. */
function cellOf({ field, differs, cells }: FieldRow, { name, mode }: Column): Cell {
  const why = differs?.[mode];
  if (cells) return cells[mode];
  return why === undefined ? { file: 'test/matrix-fields.test.ts', title: `${field}, in ${name}` } : { differs: why };
}

const all: readonly (readonly [string, Cell])[] = [
  ...fieldRows.flatMap((row) =>
    columns.map((column) => [`${row.field}, in ${column.name}`, cellOf(row, column)] as const),
  ),
  ...promises.flatMap(({ promise, cells }) =>
    nodeColumns.map((name) => [`${promise}, in ${name}`, cells[name]] as const),
  ),
];

test('each cell names a test that exists, or says why it differs', () => {
  const wrong = all.flatMap(([name, cell]) => {
    if (!('file' in cell) || cell.file === 'test/matrix-fields.test.ts') return [];
    const path = join(root, cell.file);
    const isThere = existsSync(path) && cell.title !== '' && readFileSync(path, 'utf8').includes(cell.title);
    return isThere ? [] : [`${name}: ${cell.file} has no test ${cell.title}`];
  });
  expect(wrong).toEqual([]);
});

test('no more cells lack a test than before', () => {
  const lacking = all.filter(([, cell]) => 'missing' in cell).map(([name]) => name);
  expect(lacking).toHaveLength(missingMax);
});

function printCell(cell: Cell, notes: string[]): string {
  if ('missing' in cell) return `**not yet**: ${cell.missing}`;
  if ('differs' in cell) return `differs: ${cell.differs}`;
  const name = cell.file.replace(/^.*\//, '').replace(/\.test\.ts$/, '');
  const note = `\`${cell.file}\`: ${cell.title}`;
  if (!notes.includes(note)) notes.push(note);
  return `${name} (${notes.indexOf(note) + 1})`;
}

/** From which version on a field is read as it is by default, or that all versions read it so. */
function versionCell(field: string): string {
  const row = versionRows.find((one) => one.field === field);
  if (row === undefined) return 'all';
  const { since } = differenceBy(row.by);
  return `[since ${since}](#fields-by-version-of-kube-proxy)`;
}

/** Fields of a KubeProxyConfiguration that change no rule, with the reason. */
const notFollowed: Readonly<Record<string, string>> = Object.fromEntries(
  [...fieldEffects(kubeProxySchema)].flatMap(([field, effect]) => {
    if (effect.kind === 'followed') return [];
    const kind =
      effect.kind === 'none' ? '' : 'a warning where it is not the default, as nodes with Sluice do otherwise: ';
    return [[`KubeProxyConfiguration ${field}`, `${kind}${effect.why}`]];
  }),
);

function printPage(): string {
  const notes: string[] = [];
  const header = (first: string, names: readonly string[]): string =>
    `| ${[first, ...names].join(' | ')} |\n|${'---|'.repeat(names.length + 1)}\n`;
  const fieldLines = fieldRows.map((row) => {
    const cells = columns.map((column) => {
      const cell = cellOf(row, column);
      return 'file' in cell && cell.file === 'test/matrix-fields.test.ts' ? 'yes' : printCell(cell, notes);
    });
    return `| \`${row.field}\` | ${[...cells, versionCell(row.field)].join(' | ')} |\n`;
  });
  const promiseLines = promises.map(
    ({ promise, cells }) =>
      `| ${promise} | ${nodeColumns.map((name) => printCell(cells[name], notes)).join(' | ')} |\n`,
  );
  const versionLines = versionRows.map(({ field, by }) => {
    const { since, now, before } = differenceBy(by);
    return `| \`${field}\` | ${since} | ${now} | ${before} |\n`;
  });
  const lines = Map.groupBy(Object.entries({ ...withoutMeaning, ...notFollowed }), ([, why]) => why);
  return `# Fields by mode and version

Every field of the input and every promise of a node, in each mode and layout, with the test that shows it, and by version of kube-proxy. A
cell without a test fails the build; so does a field that the code reads and that is not here. The table is \`test/matrix\`.

## Fields

**yes**: \`test/matrix-fields.test.ts\` renders a cluster with the field and without it, and asks where connections end. Where packets show
a field only with time, it asks the view of Services, the sysctls or the time-outs. The last column says which versions of kube-proxy,
${kubeProxyVersions[0]} to ${kubeProxyVersions.at(-1)}, read it so; \`test/matrix-versions.test.ts\` asks them.

${header('field', [...columns.map(({ name }) => name), 'versions'])}${fieldLines.join('')}
## Fields by version of kube-proxy

A profile names its version; [the rest](kube-proxy-versions.md) of what versions do differently is about no field.

${header('field', ['since', 'kube-proxy does', 'before'])}${versionLines.join('')}
## Promises of a node

The number is that of the test below. Columns of mode ipvs are shown in an emulated guest or on the fake kernel, which passes the same
contracts.

${header('promise', nodeColumns)}${promiseLines.join('')}
## Tests

${notes.map((note, at) => `${at + 1}. ${note}\n`).join('')}
## Fields without meaning for packets

${[...lines].map(([why, named]) => `- ${why}: ${named.map(([field]) => `\`${field}\``).join(', ')}\n`).join('')}`;
}

/** UPDATE_DOCS=1 rewrites the page. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, printPage());

test('docs/matrix.md is up to date', () => {
  expect(readFileSync(page, 'utf8')).toBe(printPage());
});
