import { reaches } from '@sluice/testing';
import { defineConfig } from 'vitest/config';
import { endKeptForks, keptForks } from './tools/kept-forks.ts';
import { ProfileReporter } from './tools/profile-reporter.ts';
import { knownSeconds, LongestFirst } from './tools/longest-first.ts';
import {
  ofThisLanding,
  type ProjectName,
  projectNames,
  selected,
  type TestFile,
  testFiles,
} from './tools/selection.ts';
import { SummaryReporter } from './tools/summary-reporter.ts';
import { buildTestPrograms, runPrograms } from './tools/test-programs.ts';
import { emulatedBooter, guestFiles, userModeBooter } from './test/vm/where.ts';

const root = import.meta.dirname;
/** Paths that `./dev test PATH …` named; without one the tier says what runs. */
const named = (process.env['SLUICE_FILES'] ?? '').split(' ').filter((path) => path !== '');
const profiled = process.env['SLUICE_PROFILE'] === '1';

const filesOf = (project: ProjectName): readonly TestFile[] => {
  const files = selected(testFiles(root, project), named);
  return named.length > 0 ? files : ofThisLanding(files, knownSeconds());
};
const paths = (files: readonly TestFile[]): string[] => files.map(({ path }) => path);

if (
  runPrograms(
    root,
    projectNames.flatMap((name) => paths(filesOf(name))),
  )
)
  process.env['SLUICE_PROGRAMS'] ??= await buildTestPrograms(root);

/**
 * Four files at once keep two processors at work: some wait for children, namespaces and guests, while unit tests compute in what they
 * leave (`longest-first.ts`, `background.setup.ts`). Those that measure time come behind all others, one at a time: in `./dev test` these
 * are two files, of which one mostly waits, and each has a processor.
 */
const together = { sequence: { groupOrder: 0 }, maxWorkers: 4 } as const;
const alone = { sequence: { groupOrder: 1 }, maxWorkers: reaches('all') ? 1 : 2 } as const;

/** For what hangs; a machine that is busy is no fault. */
const hangMs = 180_000;

/** Files one after the other in a process, which keeps the modules that they import. No file changes anything for the next one. */
const shared = { isolate: false, pool: keptForks } as const;

/**
 * Tests that touch a kernel. A machine that is busy may fail one: it is tried once more, with the
 * same random input, and is named at the end (`summary-reporter.ts`). Unit tests have one try.
 */
const onKernel = { pool: 'forks', retry: 1, testTimeout: hangMs, hookTimeout: hangMs } as const;

/**
 * Node loads the sources itself, as it does outside of tests. Vite would transform each file, and turn each use of an import into a property
 * that a getter reads. Nothing here mocks modules, which the loader of vitest is for.
 */
const natively = { experimental: { viteModuleRunner: false, nodeLoader: false } } as const;

const kernelFiles = filesOf('kernel');
const booters = [userModeBooter, emulatedBooter];
const isInside = ({ path }: TestFile): boolean => path.startsWith('test/vm/inside/');
const inside = selected(
  testFiles(root, 'vm').filter(isInside),
  named.some((name) => booters.includes(name)) ? [] : named,
);
const guests = guestFiles(paths(inside), named, reaches('all'));
for (const [name, files] of Object.entries(guests)) process.env[name] ??= (files as readonly string[]).join(' ');

const projects = [
  {
    name: 'unit',
    include: paths(filesOf('unit')),
    ...shared,
    setupFiles: ['packages/testing/src/properties.setup.ts', 'tools/background.setup.ts'],
    testTimeout: hangMs,
    hookTimeout: hangMs,
    ...together,
  },
  {
    name: 'vm',
    include: [
      ...paths(filesOf('vm').filter((file) => !isInside(file) && !booters.includes(file.path))),
      ...(guests.SLUICE_USER_MODE_FILES.length > 0 ? [userModeBooter] : []),
      ...(guests.SLUICE_GUEST_FILES.length > 0 ? [emulatedBooter] : []),
    ],
    ...onKernel,
    ...together,
  },
  {
    name: 'kernel',
    include: paths(kernelFiles.filter(({ isAlone }) => !isAlone)),
    ...onKernel,
    ...shared,
    ...together,
  },
  {
    name: 'package',
    include: paths(filesOf('package')),
    globalSetup: ['test/package/setup.ts'],
    ...onKernel,
    ...together,
    hookTimeout: 600_000,
  },
  { name: 'alone', include: paths(kernelFiles.filter(({ isAlone }) => isAlone)), ...onKernel, ...alone },
].filter(({ include }) => include.length > 0);

if (named.length > 0 && projects.length === 0) throw new Error(`No test file begins with ${named.join(' or ')}`);

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    reporters: [
      'default',
      ...(profiled ? [new ProfileReporter()] : []),
      new SummaryReporter(),
      { onTestRunEnd: endKeptForks },
    ],
    coverage: { provider: 'v8', include: ['packages/*/src/**'], reporter: ['text', 'json-summary'] },
    tags: [
      { name: 'quick', description: 'runs in ./dev test --quick and all larger tiers' },
      { name: 'test', description: 'runs in ./dev test and ./dev test --all' },
      { name: 'all', description: 'runs in ./dev test --all' },
      { name: 'alone', description: 'measures time: nothing else runs beside it' },
    ],
    projects: projects.map((test) => ({
      test: { ...test, ...natively, ...(profiled ? { runner: './tools/profile-runner.ts' } : {}) },
    })),
  },
});
