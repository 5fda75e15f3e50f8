import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/bundle';
import { reaches, type Tier, tiers } from '@sluice/testing';

/**
 * Which test files a run takes. `// @module-tag quick`, `test` or `all` on its first lines names the smallest tier that runs a file. Without
 * it a unit test is in every tier; files that need a kernel, a guest or a package must name one. `// @module-tag alone` is for files
 * whose assertions measure time: nothing else runs beside them.
 */
export interface TestFile {
  /** Below the checkout. */
  readonly path: string;
  /** The smallest tier that runs it. */
  readonly tier: Tier;
  readonly isAlone: boolean;
}

/** What the files of a project need, which is where they lie. */
export type ProjectName = 'unit' | 'kernel' | 'vm' | 'package';

const patterns: Readonly<Record<ProjectName, readonly string[]>> = {
  unit: [
    'packages/*/src/**/*.test.ts',
    'test/*.test.ts',
    'test/{cluster,docs,fuzz,registry,review,report,pipeline}/*.test.ts',
    'tools/*.test.ts',
  ],
  kernel: ['test/{netns,runbooks,faults,parity}/*.test.ts'],
  // What lies in `inside` runs in a guest that test/vm/vm.test.ts boots.
  vm: ['test/vm/*.test.ts', 'test/vm/inside/*.test.ts'],
  package: ['test/package/*.test.ts'],
};

/** All test files of a project, sorted. @throws where a file that needs a tag has none */
export function testFiles(root: string, project: ProjectName): readonly TestFile[] {
  return globSync([...patterns[project]], { cwd: root })
    .toSorted(compareText)
    .map((path) => readTags(path, readFileSync(join(root, path), 'utf8'), project === 'unit' ? 'quick' : undefined));
}

/**
 * @param usual the tier of a file that names none
 * @throws where a text names two tiers, or none and there is no usual one
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
 * The files that this run takes.
 * @param named paths, or beginnings of paths, that a person or CI asked for: then the tier does not matter
 */
export function selected(files: readonly TestFile[], named: readonly string[], tier?: Tier): readonly TestFile[] {
  if (named.length === 0) return files.filter((file) => reaches(file.tier, tier));
  return files.filter(({ path }) => named.some((name) => path.startsWith(name)));
}
