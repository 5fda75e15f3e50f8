import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize, relative } from 'node:path';
import { expect, test } from 'vitest';
import { bundleProgram, nodePrograms } from '../tools/bundle.ts';

const root = join(import.meta.dirname, '..');

/**
 * The allowed imports. A place is a package's folder, or its file where it has no folder. Imports within a place are free.
 * The list is closed: a new folder needs a line.
 */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  netfilter: [],
  bundle: ['netfilter'],
  cli: [],
  // The binary: it collects the verbs of three packages.
  sluice: ['renderer/commands', 'renderer/load', 'renderer/exit', 'review/commands', 'delivery/commands', 'cli'],
  'renderer/commands': [
    'cli',
    'cli/log',
    'renderer/cluster',
    'renderer/load',
    'renderer/render',
    'renderer/removal',
    'renderer/emit',
    'renderer/exit',
  ],
  'renderer/cluster': ['renderer/render'],
  'renderer/load': ['cli', 'renderer/render'],
  'renderer/render': [],
  'renderer/removal': [],
  'renderer/emit': ['renderer/load', 'renderer/render'],
  'renderer/exit': ['cli'],
  'delivery/commands': [
    'delivery/emit',
    'delivery/fleet',
    'delivery/registry',
    'renderer/commands',
    'renderer/emit',
    'renderer/exit',
    'renderer/load',
    'cli',
  ],
  'delivery/emit': ['delivery/fleet', 'renderer/emit', 'renderer/load'],
  'delivery/fleet': [],
  'delivery/registry': ['renderer/cluster'],
  'review/commands': [
    'review',
    'review/emit',
    // Receipts say what a node ran at a time.
    'delivery/commands',
    'renderer/commands',
    'renderer/exit',
    'renderer/load',
    'renderer/render',
    'cli',
  ],
  'review/emit': ['review', 'delivery/fleet', 'renderer/emit', 'renderer/load', 'cli'],
  // All its other folders, of which `floors` has the imports.
  review: [],
  'applier/main': ['applier/commands', 'applier/memory', 'applier/ports', 'applier/program', 'cli', 'cli/log'],
  'applier/program': ['applier/commands', 'cli'],
  'applier/memory': ['applier/limits'],
  'applier/message': ['cli'],
  'applier/limits': ['applier/paces'],
  'applier/paces': [],
  'applier/config': ['applier/limits', 'cli'],
  'applier/command-error': ['applier/ports'],
  // The wings, from the verbs down to values. None but the verbs may import more than six others.
  'applier/commands': [
    'applier/apply',
    'applier/command-error',
    'applier/config',
    'applier/daemon',
    'applier/diagnose',
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/memory',
    'applier/message',
    'applier/move',
    'applier/observe',
    'applier/ports',
    'applier/state',
    'cli',
    'cli/log',
  ],
  'applier/daemon': [
    'applier/apply',
    'applier/command-error',
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/message',
    'applier/observe',
    'applier/ports',
    'applier/state',
  ],
  // Facts in, one cause out; what a node needs before a bundle.
  'applier/diagnose': [
    'applier/apply',
    'applier/config',
    'applier/inbox',
    'applier/kernel',
    'applier/message',
    'applier/ports',
    'applier/state',
  ],
  // From kube-proxy and back: transactions in order, the unit or static pod, certificates.
  'applier/move': [
    'applier/apply',
    'applier/inbox',
    'applier/kernel',
    'applier/message',
    'applier/ports',
    'applier/state',
  ],
  'applier/observe': [
    'applier/apply',
    'applier/config',
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/message',
    'applier/ports',
    'applier/state',
    // For sluice_build_info.
    'cli',
  ],
  'applier/inbox': ['applier/kernel', 'applier/limits', 'applier/state', 'cli'],
  'applier/state': ['applier/apply', 'applier/kernel', 'applier/limits', 'applier/ports'],
  'applier/kernel': [
    'applier/apply',
    'applier/config',
    'applier/limits',
    'applier/message',
    'applier/observe',
    'applier/ports',
  ],
  'applier/apply': ['applier/limits', 'applier/message', 'applier/ports'],
  'applier/ports': ['applier/limits', 'cli'],
};

/** Pure places, by the beginnings of paths: their functions turn values into values, without disk, process or clock. */
const pure: Readonly<Record<string, readonly string[]>> = {
  'netfilter/': ['node:crypto', 'node:zlib'],
  'bundle/': ['node:crypto', 'node:zlib', 'yaml'],
  'cli/': ['commander', 'pino', 'node:crypto', 'node:util'],
  'renderer/src/render/': ['node:crypto', 'yaml'],
  'renderer/src/removal/': [],
  'review/src/(?!commands/|emit/)': ['diff'],
  'delivery/src/fleet/': [],
  'applier/src/apply/': [],
  'applier/src/ports/': [],
  'applier/src/observe/counts/': [],
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
  const isWhole = ['netfilter', 'bundle', 'cli', 'sluice'].includes(name);
  return isWhole || (name === 'review' && !['commands', 'emit'].includes(place)) ? name : `${name}/${place}`;
}

/**
 * The places that are large, by folders: each folder with those that it may import. Files beside the folders are free: the first ones that
 * a reader meets, or what every folder uses.
 */
const floors: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>> = {
  'netfilter/src/': {
    // The closed grammar of rule files; the words and names of all modes.
    rules: [],
    diagnosis: ['rules'],
    virtual: ['rules'],
    nftables: ['rules', 'virtual'],
    link: ['rules'],
    // What a trace follows, and what it finds.
    packet: ['rules', 'virtual'],
    live: ['packet', 'rules'],
    trace: ['link', 'live', 'nftables', 'packet', 'rules', 'virtual'],
    services: ['link', 'nftables', 'rules', 'virtual'],
  },
  'bundle/src/': {
    seal: [],
    virtual: [],
    release: ['seal'],
    archive: ['release', 'seal'],
    observation: [],
    parity: [],
    certificate: ['parity', 'release'],
  },
  'renderer/src/render/': {
    // The values that pass through a rendering, and the choices that several steps make of them.
    model: [],
    select: ['model'],
    read: ['model'],
    doctor: ['model'],
    layer: ['model', 'read'],
    allocate: ['model', 'read'],
    versions: ['model', 'read'],
    compile: ['model', 'select', 'versions'],
    normalise: ['allocate', 'layer', 'model', 'read', 'select', 'versions'],
    quarantine: ['model', 'read'],
    incremental: ['allocate', 'compile', 'model', 'normalise', 'quarantine', 'read', 'select', 'versions'],
  },
  'applier/src/ports/': { ipvs: [], nftables: [] },
  'applier/src/apply/': {
    plan: [],
    // The data planes, one a file: how a state of each changes, and how the kernel shows it.
    planes: ['plan'],
    order: [],
    endpoints: [],
    partial: ['endpoints'],
    admission: ['partial', 'plan', 'planes'],
    transaction: ['admission', 'endpoints', 'order', 'partial', 'plan', 'planes'],
    recovery: ['admission', 'plan', 'planes', 'transaction'],
    reconcile: ['admission', 'endpoints', 'order', 'plan', 'recovery', 'transaction'],
  },
  'applier/src/observe/': { probe: [], counts: [], health: [], receipts: [], status: ['counts'] },
  'applier/src/move/': { adoption: [], 'kube-proxy': [], parity: [] },
  'applier/src/diagnose/': { doctor: [], examine: ['doctor'], preflight: [] },
  'review/src/': {
    bundle: [],
    facts: ['bundle'],
    flows: ['bundle'],
    // What a kernel holds; parity compares it with a bundle by the differences of modes that proofs know.
    observed: ['bundle'],
    parity: ['bundle', 'flows', 'observed', 'prove'],
    cost: ['bundle', 'flows'],
    diff: ['bundle', 'facts', 'flows'],
    explain: ['bundle', 'facts', 'flows'],
    fate: ['bundle', 'facts', 'flows', 'trace'],
    failures: ['bundle', 'facts'],
    policy: ['bundle', 'facts', 'failures'],
    prove: ['bundle', 'flows'],
    trace: ['bundle', 'facts', 'flows', 'observed'],
    // What a failure breaks of the policy.
    'what-if': ['bundle', 'facts', 'failures', 'policy'],
    report: ['bundle', 'diff', 'facts', 'failures', 'flows', 'policy', 'what-if'],
  },
};

/** What rules mean, and what bundles are: every other place may import them. */
const base = ['netfilter', 'bundle'];
const isBase = (place: string): boolean => ['netfilter', 'bundle', 'cli'].includes(place);

const isOurs = (place: string): boolean =>
  /^(netfilter|bundle|cli|renderer|review|delivery|sluice|applier)(\/|$)/.test(place);
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
    ({ from, to }) => isOfNode(from) !== isOfNode(to) && isOurs(to) && !/^(netfilter|bundle|cli)/.test(to),
  );
  expect(crossing.map(({ file }) => relative('.', file))).toEqual([]);
});

test('sluice of a node has no file of reviews and releases', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-node-'));
  try {
    const sources = await bundleProgram(root, 'sluice', join(dir, 'sluice.mjs'), false, { entry: nodePrograms.sluice });
    expect(sources).toContain('packages/renderer/src/commands/watch/watch.ts');
    expect(sources.filter((path) => /^packages\/(?:review|delivery)\//.test(path))).toEqual([]);
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
  'packages/applier/src/inbox/git.ts',
  'packages/renderer/src/commands/watch/repository.ts',
  'packages/renderer/src/load/git/run-git.ts',
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
    /\/usr\/bin\/git|findTool\('git'\)|join\(dir, 'git'\)/.test(readFileSync(join(root, file), 'utf8')),
  );
  expect(starters.toSorted()).toEqual(startsGit);
  for (const file of starters)
    expect(`${file}: ${readFileSync(join(root, file), 'utf8')}`).toMatch(/(?:reading|writing)Git\(/);
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
