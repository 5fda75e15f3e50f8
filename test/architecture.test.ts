import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize, relative } from 'node:path';
import { expect, test } from 'vitest';
import { bundleProgram, nodePrograms } from '../tools/bundle.ts';
import { base, floors, isBase, mayImport } from './imports.ts';

const root = join(import.meta.dirname, '..');

/** Pure places, by the beginnings of paths: their functions turn values into values, without disk, process or clock. */
const pure: Readonly<Record<string, readonly string[]>> = {
  'netfilter/': ['node:crypto', 'node:zlib'],
  'bundle/': ['node:crypto', 'node:zlib', 'yaml'],
  'cli/': ['commander', 'pino', 'node:crypto', 'node:util'],
  'renderer/src/render/': ['node:crypto', 'yaml'],
  'renderer/src/removal/': [],
  'review/src/(?!commands/|emit/)': [],
  'delivery/src/fleet/': [],
  'applier/src/apply/': [],
  'applier/src/ports/': [],
  'applier/src/move/adoption/': [],
  'applier/src/diagnose/doctor/': [],
};

interface Import {
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The imported file, below `packages`; absent for a package. */
  readonly target?: string;
}

/** Tests and their helpers. */
function isForTests(path: string): boolean {
  return /\.(test|fixture)\.ts$|\/testing\.ts$/.test(path) || path.includes('node_modules');
}

const imports: readonly Import[] = readdirSync(join(root, 'packages'), { recursive: true, encoding: 'utf8' })
  .filter((path) => /^[a-z]+\/src\/.*\.ts$/.test(path) && !isForTests(path))
  .flatMap((path) => {
    const text = readFileSync(join(root, 'packages', path), 'utf8');
    const targets = [...text.matchAll(/(?:^|\s)(?:from|import|import\()\s*'([^']+)'/g)].map(
      (match) => match[1] as string,
    );
    return targets.map((target) => ({ file: path, from: placeOf(path), ...resolveTarget(path, target) }));
  });

function resolveTarget(path: string, target: string): Pick<Import, 'to' | 'target'> {
  const other = /^@sluice\/([a-z]+)\/(.*\.ts)$/.exec(target);
  if (other) return resolveTarget(`${other[1]}/src/index.ts`, `./${other[2]}`);
  if (!target.startsWith('.')) return { to: target.startsWith('@sluice/') ? target.slice('@sluice/'.length) : target };
  const file = normalize(join(dirname(path), target));
  return { to: placeOf(file), target: file };
}

function placeOf(path: string): string {
  const [name, , ...rest] = path.split('/') as [string, string, ...string[]];
  const place = (rest[0] as string).replace(/\.ts$/, '');
  const isWhole = ['netfilter', 'bundle', 'cli', 'sluice', 'transport'].includes(name);
  return isWhole || (name === 'review' && !['commands', 'emit'].includes(place)) ? name : `${name}/${place}`;
}

const isOurs = (place: string): boolean =>
  /^(netfilter|bundle|cli|transport|renderer|review|delivery|sluice|applier)(\/|$)/.test(place);
const unique = (list: readonly Import[]): readonly Import[] => [
  ...new Map(list.map((item) => [`${item.file} ${item.to}`, item])).values(),
];

test.each(unique(imports.filter(({ from, to }) => isOurs(to) && from !== to)))(
  '$from may import $to ($file)',
  ({ from, to }) => {
    expect([...(mayImport[from] ?? []), ...(isBase(from) ? [] : base)]).toContain(to);
  },
);

/** Imports between the folders of a floor. */
const withinFloors = Object.entries(floors).flatMap(([floor, mayImportOf]) => {
  const folderOf = (path: string): string | undefined =>
    path.startsWith(floor) ? path.slice(floor.length).split('/').slice(0, -1)[0] : undefined;
  return imports.flatMap(({ file, target }) => {
    const [from, to] = [folderOf(file), folderOf(target ?? '')];
    // Places of their own are in the other table.
    if (target === undefined || placeOf(file) !== placeOf(target)) return [];
    return from === undefined || to === undefined || from === to ? [] : [{ file, target, from, to, mayImportOf }];
  });
});

test.each(withinFloors)('$file may import $target', ({ from, to, mayImportOf }) => {
  expect(mayImportOf[from] ?? []).toContain(to);
});

const pureImports = Object.entries(pure).flatMap(([place, allowed]) =>
  imports.filter(({ file }) => new RegExp(`^${place}`).test(file)).map((one) => ({ ...one, place, allowed })),
);

test.each(pureImports.filter(({ to }) => !isOurs(to)))('$file stays pure though it imports $to', ({ to, allowed }) => {
  expect(allowed).toContain(to);
});

test.each(Object.keys(pure))('nothing in %s reads the clock, chance, the environment or the locale', (place) => {
  // A date made from a number reads no clock.
  const forbidden = /\bDate\b(?!\([A-Za-z])|Math\.random|process\.|localeCompare|Intl\.|toLocale/;
  const files = new Set(pureImports.flatMap((one) => (one.place === place ? [one.file] : [])));
  expect(files.size).toBeGreaterThan(0);
  const found = [...files].filter((file) =>
    forbidden.test(withoutComments(readFileSync(join(root, 'packages', file), 'utf8'))),
  );
  expect(found).toEqual([]);
});

const withoutComments = (text: string): string => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');

test('sluice and sluiced never import each other', () => {
  const isOfNode = (place: string): boolean => place.startsWith('applier');
  const crossing = imports.filter(
    ({ from, to }) => isOfNode(from) !== isOfNode(to) && isOurs(to) && !/^(netfilter|bundle|cli|transport)/.test(to),
  );
  expect(crossing.map(({ file }) => relative('.', file))).toEqual([]);
});

test('sluice of a node has no file of reviews and releases, and no client of Kubernetes', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-node-'));
  try {
    const sources = await bundleProgram(root, 'sluice', join(dir, 'sluice.mjs'), false, { entry: nodePrograms.sluice });
    expect(sources).toContain('packages/renderer/src/commands/watch/watch.ts');
    expect(
      sources.filter((path) =>
        /^packages\/(?:review|delivery)\/|node_modules\/undici\/|client-node\/dist\/gen/.test(path),
      ),
    ).toEqual([]);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

/** Packages with verbs. */
const withVerbs = ['renderer', 'review', 'delivery', 'applier'] as const;

/** Which file of a verb imports which file of another one; a verb is a folder of `commands` that the options of `verbs` load. */
function betweenVerbs(program: string): readonly string[] {
  const commands = join(root, 'packages', program, 'src/commands');
  const files = readdirSync(commands, { recursive: true, encoding: 'utf8' });
  const options = files
    .filter((path) => path.startsWith('verbs/'))
    .map((path) => readFileSync(join(commands, path), 'utf8'));
  const verbs = new Set([...options.join('').matchAll(/import\('\.\.\/([-a-z]+)\//g)].map(([, verb = '']) => verb));
  expect(verbs.size).toBeGreaterThan(6);
  return files
    .filter((path) => path.endsWith('.ts') && !isForTests(path) && verbs.has(path.split('/')[0] as string))
    .flatMap((path) => {
      const targets = readFileSync(join(commands, path), 'utf8').matchAll(/'(\.\.\/[^']+\.ts)'/g);
      const others = [...targets].map(([, target]) => normalize(join(dirname(path), target as string)));
      return others
        .filter((other) => verbs.has(other.split('/')[0] as string) && dirname(other) !== dirname(path))
        .map((other) => `${path} imports ${other}`);
    });
}

test.each(withVerbs)('in the %s no verb imports another verb', (program) => {
  expect(betweenVerbs(program)).toEqual([]);
});

test.each(withVerbs)('in the %s the options of a verb load none of its code', (program) => {
  const commands = join(root, 'packages', program, 'src/commands');
  const definitions = readdirSync(commands, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.startsWith('verbs/') && !isForTests(path),
  );
  expect(definitions.length).toBeGreaterThan(0);
  const loaded = definitions.flatMap((path) => [
    ...readFileSync(join(commands, path), 'utf8').matchAll(/^import (?!type )[^;]*'([^']+)';$/gm),
  ]);
  expect(loaded.length).toBeGreaterThan(definitions.length);
  const allowed = /^(?:@sluice\/cli|commander|(?:\.\.|@sluice\/renderer\/commands)\/options\/[a-z]+\.ts)$/;
  expect(loaded.flatMap(([, target = '']) => (allowed.test(target) ? [] : [target]))).toEqual([]);
});

test('only @sluice/testing sets the number of runs of a property, and the tier and seed of a run', () => {
  const deciding = /\bnumRuns:|SLUICE_(TIER|SEED|SOAK)'\]|process\.env\['CI'\]/;
  const own = ['test/architecture.test.ts'];
  const files = ['packages', 'test']
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`),
    )
    .filter((path) => path.endsWith('.ts') && !path.includes('node_modules') && !path.startsWith('packages/testing/'));
  expect(files.filter((path) => !own.includes(path) && deciding.test(readFileSync(join(root, path), 'utf8')))).toEqual(
    [],
  );
});

/** Files that take their git settings from `packages/cli/src/git.ts`. */
const startsGit = [
  'packages/applier/src/fetch/git.ts',
  'packages/applier/src/inbox/git.ts',
  'packages/renderer/src/commands/watch/repository.ts',
  'packages/renderer/src/load/git/run-git.ts',
  'packages/transport/src/receipts/git.ts',
];

test('no wing of the applier but its verbs imports more than six others', () => {
  const wings = new Set(imports.flatMap(({ file, from }) => (/^applier\/src\/[^/]+\//.test(file) ? [from] : [])));
  expect(wings.size).toBeGreaterThan(8);
  const wide = [...wings].filter(
    (wing) => wing !== 'applier/commands' && mayImport[wing]!.filter((place) => wings.has(place)).length > 6,
  );
  expect(wide).toEqual([]);
  expect(Object.values(mayImport).flat().length).toBeLessThanOrEqual(150);
});

test('git is started in one hardened way', () => {
  const files = readdirSync(join(root, 'packages'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !isForTests(path))
    .map((path) => `packages/${path}`);
  const starters = files.filter((file) =>
    /\/usr\/bin\/git|find(?:Tool|Program)\('git'/.test(readFileSync(join(root, file), 'utf8')),
  );
  expect(starters.toSorted()).toEqual(startsGit);
  for (const file of starters)
    expect(`${file}: ${readFileSync(join(root, file), 'utf8')}`).toMatch(/(?:reading|remote|writing)Git\(/);
});

/** It spreads lists of a page of bounded size. */
const spreadsFew = ['review/src/emit/report/markdown.ts'];

test('no list of unbounded length is spread into arguments', () => {
  const files = readdirSync(join(root, 'packages'), { recursive: true, encoding: 'utf8' }).filter(
    (path) =>
      path.endsWith('.ts') && !isForTests(path) && !path.endsWith('.generated.ts') && !path.includes('/testing/'),
  );
  const spreading = files.filter((path) =>
    /\.(?:push|unshift)\(\.\.\./.test(readFileSync(join(root, 'packages', path), 'utf8')),
  );
  // `addAll` of packages/netfilter/src/add-all.ts says why.
  expect(spreading).toEqual(spreadsFew);
});
