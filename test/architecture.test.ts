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
  sluice: [
    'renderer/commands',
    'renderer/load',
    'renderer/exit',
    'review/commands',
    'delivery/commands',
    'bundle',
    'cli',
  ],
  'renderer/commands': [
    'cli',
    'cli/log',
    'renderer/cluster',
    'renderer/load',
    'renderer/render',
    'renderer/removal',
    'renderer/emit',
    'renderer/exit',
    'bundle',
    'netfilter',
  ],
  'renderer/cluster': ['renderer/render', 'bundle', 'netfilter'],
  'renderer/load': ['cli', 'renderer/render', 'bundle', 'netfilter'],
  'renderer/render': ['bundle', 'netfilter'],
  'renderer/removal': ['bundle', 'netfilter'],
  'renderer/emit': ['renderer/load', 'renderer/render', 'bundle', 'netfilter'],
  'renderer/exit': ['cli'],
  'delivery/commands': [
    'delivery/emit',
    'delivery/fleet',
    'delivery/registry',
    'renderer/commands',
    'renderer/emit',
    'renderer/exit',
    'renderer/load',
    'bundle',
    'cli',
    'netfilter',
  ],
  'delivery/emit': ['delivery/fleet', 'renderer/emit', 'renderer/load', 'bundle', 'netfilter'],
  'delivery/fleet': ['bundle', 'netfilter'],
  'delivery/registry': ['renderer/cluster', 'bundle', 'netfilter'],
  'review/commands': [
    'review',
    'review/emit',
    // Receipts say what a node ran at a time.
    'delivery/commands',
    'renderer/commands',
    'renderer/exit',
    'renderer/load',
    'renderer/render',
    'bundle',
    'cli',
    'netfilter',
  ],
  'review/emit': ['review', 'delivery/fleet', 'renderer/emit', 'renderer/load', 'bundle', 'cli', 'netfilter'],
  // All its other folders, of which `floors` has the imports.
  review: ['bundle', 'netfilter'],
  'applier/main': [
    'applier/commands',
    'applier/memory',
    'applier/ports',
    'applier/program',
    'cli',
    'cli/log',
    'netfilter',
  ],
  'applier/program': ['applier/commands', 'bundle', 'cli'],
  'applier/memory': ['applier/limits'],
  'applier/message': ['cli'],
  'applier/limits': ['bundle', 'applier/paces'],
  'applier/paces': [],
  'applier/config': ['applier/limits', 'bundle', 'cli', 'netfilter'],
  'applier/command-error': ['applier/ports', 'netfilter'],
  'applier/commands': [
    'applier/admission',
    'applier/adoption',
    'applier/archive',
    'applier/command-error',
    'applier/config',
    'applier/control',
    'applier/counts',
    'applier/daemon',
    'applier/doctor',
    'applier/endpoints',
    'applier/examine',
    'applier/health',
    'applier/inbox',
    'applier/ipvs',
    'applier/nftables',
    'applier/kernel',
    'applier/kube-proxy',
    'applier/limits',
    'applier/memory',
    'applier/message',
    'applier/order',
    'applier/parity',
    'applier/plan',
    'applier/planes',
    'applier/ports',
    'applier/preflight',
    'applier/probe',
    'applier/receipts',
    'applier/reconcile',
    'applier/recovery',
    'applier/state',
    'applier/status',
    'applier/transaction',
    'bundle',
    'cli',
    'cli/log',
    'netfilter',
  ],
  'applier/control': [
    'applier/command-error',
    'applier/endpoints',
    'applier/limits',
    'applier/message',
    'applier/ports',
    'applier/receipts',
    'applier/reconcile',
    'applier/state',
    'applier/status',
    'applier/transaction',
    'netfilter',
  ],
  'applier/daemon': [
    'applier/command-error',
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/message',
    'applier/ports',
    'applier/reconcile',
    'applier/status',
    'applier/transaction',
    'bundle',
    'netfilter',
  ],
  'applier/counts': ['applier/limits', 'applier/nftables', 'applier/partial', 'applier/ports', 'netfilter'],
  'applier/status': [
    'applier/counts',
    'applier/kernel',
    'applier/limits',
    'applier/nftables',
    'applier/planes',
    'applier/ports',
    'applier/state',
    // For sluice_build_info.
    'cli',
    'bundle',
    'netfilter',
  ],
  'applier/reconcile': [
    'applier/admission',
    'applier/endpoints',
    'applier/ipvs',
    'applier/limits',
    'applier/message',
    'applier/order',
    'applier/plan',
    'applier/ports',
    'applier/recovery',
    'applier/transaction',
    'bundle',
    'netfilter',
  ],
  'applier/recovery': [
    'applier/admission',
    'applier/ipvs',
    'applier/limits',
    'applier/message',
    'applier/nftables',
    'applier/plan',
    'applier/planes',
    'applier/ports',
    'applier/transaction',
    'netfilter',
  ],
  'applier/transaction': [
    'applier/admission',
    'applier/endpoints',
    'applier/ipvs',
    'applier/limits',
    'applier/message',
    'applier/nftables',
    'applier/order',
    'applier/partial',
    'applier/plan',
    'applier/planes',
    'applier/ports',
    'bundle',
    'netfilter',
  ],
  'applier/endpoints': [
    'applier/ipvs',
    'applier/limits',
    'applier/message',
    'applier/plan',
    'applier/ports',
    'bundle',
    'netfilter',
  ],
  'applier/partial': ['applier/endpoints', 'applier/limits', 'applier/ports', 'bundle', 'netfilter'],
  'applier/admission': [
    'applier/ipvs',
    'applier/message',
    'applier/nftables',
    'applier/partial',
    'applier/plan',
    'applier/planes',
    'applier/ports',
    'bundle',
    'netfilter',
  ],
  // The move from kube-proxy and back: transactions in order, each planned from what is there.
  'applier/adoption': ['applier/ipvs', 'applier/message', 'applier/plan', 'applier/ports', 'bundle', 'netfilter'],
  // The unit or the static pod that kube-proxy is: files, and systemctl.
  'applier/kube-proxy': ['applier/kernel', 'applier/ports', 'applier/state', 'netfilter'],
  // Certificates and reports of comparisons, read from files of others.
  'applier/parity': [
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/message',
    'applier/ports',
    'bundle',
    'netfilter',
  ],
  'applier/plan': ['applier/ipvs', 'applier/limits', 'applier/nftables', 'applier/ports', 'netfilter'],
  // The data planes, one a file: how a state of each changes, and how the kernel shows it.
  'applier/planes': [
    'applier/ipvs',
    'applier/limits',
    'applier/nftables',
    'applier/plan',
    'applier/ports',
    'netfilter',
  ],
  // Facts in, one cause out: what it judges is what the applier's pure places know.
  'applier/doctor': ['applier/ports', 'netfilter'],
  // The reads of a doctor: tools, /proc, the bundle directory.
  'applier/examine': [
    'applier/config',
    'applier/doctor',
    'applier/inbox',
    'applier/kernel',
    'applier/message',
    'applier/partial',
    'applier/plan',
    'applier/ports',
    'applier/state',
    'bundle',
    'netfilter',
  ],
  'applier/order': ['applier/limits', 'applier/plan', 'applier/ports', 'netfilter'],
  'applier/ipvs': ['applier/limits', 'netfilter'],
  'applier/nftables': ['applier/limits', 'netfilter'],
  'applier/ports': ['applier/ipvs', 'applier/nftables', 'bundle', 'cli', 'netfilter'],
  'applier/state': [
    'applier/ipvs',
    'applier/kernel',
    'applier/limits',
    'applier/plan',
    'applier/planes',
    'applier/ports',
    'bundle',
    'netfilter',
  ],
  'applier/inbox': ['applier/kernel', 'applier/limits', 'applier/state', 'bundle', 'cli', 'netfilter'],
  'applier/archive': ['applier/inbox', 'applier/kernel', 'applier/state', 'bundle', 'cli', 'netfilter'],
  'applier/receipts': [
    'applier/inbox',
    'applier/kernel',
    'applier/limits',
    'applier/ports',
    'applier/state',
    'bundle',
    'netfilter',
  ],
  'applier/probe': [
    'applier/config',
    'applier/kernel',
    'applier/limits',
    'applier/message',
    'applier/ports',
    'netfilter',
  ],
  'applier/health': ['applier/limits', 'applier/ports', 'applier/state', 'bundle', 'netfilter'],
  'applier/kernel': [
    'applier/config',
    'applier/counts',
    'applier/ipvs',
    'applier/limits',
    'applier/message',
    'applier/nftables',
    'applier/plan',
    'applier/ports',
    'applier/transaction',
    'bundle',
    'netfilter',
  ],
  'applier/preflight': [
    'applier/admission',
    'applier/config',
    'applier/kernel',
    'applier/message',
    'applier/plan',
    'applier/ports',
    'applier/state',
    'bundle',
    'netfilter',
  ],
};

/** Pure places: their functions turn values into values, without disk, process or clock. */
const pure: Readonly<Record<string, readonly string[]>> = {
  netfilter: ['node:crypto', 'node:zlib'],
  bundle: ['node:crypto', 'node:zlib', 'yaml'],
  cli: ['commander', 'pino', 'node:crypto', 'node:util'],
  'renderer/render': ['node:crypto', 'yaml'],
  'renderer/removal': [],
  review: ['diff'],
  'delivery/fleet': [],
  'applier/counts': [],
  'applier/ports': [],
  'applier/plan': [],
  'applier/planes': [],
  'applier/endpoints': [],
  'applier/partial': [],
  'applier/doctor': [],
  'applier/order': [],
  'applier/admission': [],
  'applier/adoption': [],
  'applier/transaction': [],
  'applier/recovery': [],
  'applier/reconcile': [],
  'applier/ipvs': [],
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

const isOurs = (place: string): boolean =>
  /^(netfilter|bundle|cli|renderer|review|delivery|sluice|applier)(\/|$)/.test(place);
const unique = (list: readonly Import[]): readonly Import[] => [
  ...new Map(list.map((item) => [`${item.file} ${item.to}`, item])).values(),
];

test.each(unique(imports.filter(({ from, to }) => isOurs(to) && from !== to)))(
  '$from may import $to ($file)',
  ({ from, to }) => {
    expect(mayImport[from] ?? []).toContain(to);
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

test.each(unique(imports.filter(({ from, to }) => from in pure && !isOurs(to))))(
  '$from stays pure though it imports $to ($file)',
  ({ from, to }) => {
    expect(pure[from]).toContain(to);
  },
);

test.each(Object.keys(pure))('nothing in %s reads the clock, chance, the environment or the locale', (place) => {
  // A date made from a number reads no clock.
  const forbidden = /\bDate\b(?!\([A-Za-z])|Math\.random|process\.|localeCompare|Intl\.|toLocale/;
  const files = imports.filter(({ from }) => from === place).map(({ file }) => file);
  const found = [...new Set(files)].filter((file) =>
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
