import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** The paths of a folder below `examples/`. */
export interface Example {
  readonly name: string;
  readonly dir: string;
  /** The manifests. */
  readonly input: string;
  /** The golden bundle. */
  readonly output: string;
  readonly config?: string;
  /** The table of packets, if the example has one. */
  readonly packets?: string;
}

const examplesDir = join(import.meta.dirname, '..', 'examples');

/** All examples, sorted by name. The Git example has the folder names of a repository. */
export function listExamples(): readonly Example[] {
  const names = readdirSync(examplesDir, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return names.map((entry) => readExample(entry.name)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function readExample(name: string): Example {
  const dir = join(examplesDir, name);
  const git = existsSync(join(dir, 'manifests'));
  const config = join(dir, 'sluice.yaml');
  const packets = join(dir, 'packets.yaml');
  return {
    name,
    dir,
    input: join(dir, git ? 'manifests' : 'in'),
    output: join(dir, git ? 'rendered' : 'out'),
    ...(existsSync(config) ? { config } : {}),
    ...(existsSync(packets) ? { packets } : {}),
  };
}

/** The arguments of `sluice` that render an example. */
export function renderArguments(example: Example, output = example.output): readonly string[] {
  const config = example.config === undefined ? [] : ['-c', example.config];
  return ['render', '-f', example.input, '-R', ...config, '-o', output];
}
