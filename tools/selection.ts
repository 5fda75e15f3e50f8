import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/netfilter';
import { inTurn, reaches, tier as tierOfRun, type Tier, tiers } from '@sluice/testing';

/**
 * A test file and its tags. `// @module-tag quick`, `test` or `all` on its first lines is the smallest tier that runs the file. Without it
 * a unit test is in every tier; files that need a kernel, a guest or a package must have one. `// @module-tag alone` is for files
 * whose assertions measure time: no other file runs concurrently.
 */
export interface TestFile {
  /** Below the checkout. */
  readonly path: string;
  /** The smallest tier that runs it. */
  readonly tier: Tier;
  readonly isAlone: boolean;
}

/** The environments that test files need, by their folder. */
export type ProjectName = 'unit' | 'kernel' | 'vm' | 'package';

const patterns: Readonly<Record<ProjectName, readonly string[]>> = {
  unit: [
    'packages/*/src/**/*.test.ts',
    'packages/review/page/**/*.test.ts',
    'test/*.test.ts',
    'test/{cluster,demo,docs,fetch,fuzz,registry,review,report,pipeline}/*.test.ts',
    'tools/*.test.ts',
  ],
  kernel: [
    'test/{doctor,field,netns,nft,runbooks,faults,surroundings,parity,monitoring,deploy,conformance,servers}/*.test.ts',
    'test/conformance/operations/*.test.ts',
  ],
  // test/vm/where.ts says which of them boot a guest that runs the files of `inside`.
  vm: ['test/vm/*.test.ts', 'test/vm/inside/*.test.ts'],
  package: ['test/package/*.test.ts'],
};

export const projectNames = Object.keys(patterns) as readonly ProjectName[];

/** Files that take this long, as `seconds.json` says, have turns in tier test. */
export const slowSeconds = 60;

/** Whether tier test runs the file at each second landing only; `./dev share` runs it, too, where what it guards was touched. */
export const hasTurns = ({ path, tier }: TestFile, seconds: Readonly<Record<string, number>>): boolean =>
  tier !== 'all' && (seconds[path] ?? 0) >= slowSeconds;

/**
 * Those that this landing runs. Of the slow ones each second is left out, the slowest first, so that both halves take equally long.
 * @param seconds file → duration
 */
export function ofThisLanding(
  files: readonly TestFile[],
  seconds: Readonly<Record<string, number>>,
  turnOf: (slow: readonly TestFile[]) => readonly TestFile[] = (slow) =>
    tierOfRun === 'test' ? inTurn(slow, 2) : slow,
): readonly TestFile[] {
  const slow = files.filter((file) => hasTurns(file, seconds));
  const turn = new Set(turnOf(slow.toSorted((a, b) => (seconds[b.path] ?? 0) - (seconds[a.path] ?? 0))));
  return files.filter((file) => !slow.includes(file) || turn.has(file));
}

/** All test files of a project, sorted. @throws if a file lacks a required tag */
export function testFiles(root: string, project: ProjectName): readonly TestFile[] {
  return globSync([...patterns[project]], { cwd: root })
    .toSorted(compareText)
    .map((path) => readTags(path, readFileSync(join(root, path), 'utf8'), project === 'unit' ? 'quick' : undefined));
}

/**
 * @param usual the default tier
 * @throws for a text with two tiers, or with none if there is no default
 */
export function readTags(path: string, text: string, usual?: Tier): TestFile {
  const tags = [...text.matchAll(/^\/\/ @module-tag ([a-z]+)/gm)].map(([, tag]) => tag);
  const named = tiers.filter((tier) => tags.includes(tier));
  const [tier = usual] = named;
  if (tier === undefined || named.length > 1)
    throw new Error(
      `${path} names ${named.length} tiers; it needs one on its first lines: // @module-tag quick, test or all`,
    );
  return { path, tier, isAlone: tags.includes('alone') };
}

/**
 * Selects the files of a run.
 * @param named paths, or prefixes of paths, on the command line: these are selected in every tier
 */
export function selected(files: readonly TestFile[], named: readonly string[], tier?: Tier): readonly TestFile[] {
  if (named.length === 0) return files.filter((file) => reaches(file.tier, tier));
  return files.filter(({ path }) => named.some((name) => path.startsWith(name)));
}
