import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Problem } from '@sluice/bundle';
import { readAllocations } from '../load/allocations.ts';
import { readConfig } from '../load/config/config.ts';
import { load } from '../load/load.ts';
import { type ReadSources, readSources } from '../load/sources.ts';
import type { RenderInput } from '../render/render.ts';
import { emptyInput } from './empty.ts';
import { reading, Stopped } from './failure.ts';
import type { ClusterOptions } from './from-cluster.ts';

/** The options of every command that reads manifests. */
export interface InputOptions extends Pick<ClusterOptions, 'kubeconfig' | 'context'> {
  readonly filename?: readonly string[];
  /** Take a snapshot of the cluster: the base of `filename`, or the input when there is none. */
  readonly fromCluster?: boolean;
  readonly recursive?: boolean;
  readonly base?: readonly string[];
  readonly config?: string;
  readonly strict?: boolean;
  /** Where the bundle goes, in commands that write one. */
  readonly output?: string;
}

/** Everything that `render` is told, with what was wrong on the way. */
export interface Input {
  readonly input: RenderInput;
  /** Objects of kinds that Sluice has no use for, by kind. */
  readonly passedOver: ReadonlyMap<string, number>;
  /** Where allocation files are and go. */
  readonly allocationsDir: string;
  readonly problems: readonly Problem[];
}

/**
 * Reads the config, the manifests, the base and the allocation files.
 * @returns all that could be read, and every problem: with one of level `error` nothing may be written
 * @throws Stopped when the config cannot be read, or when two layers want standard input
 */
export async function readInput(options: InputOptions): Promise<Input> {
  return inputOf(await readLayers(options), options);
}

/** What is rendered, before it is parsed. */
export interface Layers {
  readonly change: ReadSources;
  /** What the cluster has now; undefined: there is no such layer. */
  readonly base: ReadSources | undefined;
}

/**
 * Parses the layers, and reads the config and the allocation files that go with them.
 * @throws Stopped when the config cannot be read
 */
export function inputOf({ change, base }: Layers, options: InputOptions): Input {
  const changed = load(change.sources);
  const based = load(base?.sources ?? []);
  const config = readConfig({
    ...readConfigFile(options.config),
    kubeProxy: [...based.kubeProxy, ...changed.kubeProxy],
  });
  const allocationsDir = siblingAllocations(options.config ?? options.output ?? 'sluice.yaml');
  const hasBase = base !== undefined;
  const snapshots = [...based.snapshots, ...changed.snapshots];
  const allocations = readAllocations(allocationsDir);
  return {
    input: {
      base: based.objects,
      change: changed.objects,
      config: config.config,
      allocations: allocations.allocations,
      // With a base the API server has the last word on addresses: two allocators would give out the same ones.
      allocate: !hasBase && snapshots.length === 0,
      snapshot: (hasBase || snapshots.length > 0) && snapshots.every((isComplete) => isComplete),
      strict: options.strict ?? false,
    },
    passedOver: changed.passedOver,
    allocationsDir,
    problems: [change, base, changed, based, config, allocations].flatMap((part) => part?.problems ?? []),
  };
}

/** What `-f` and `--base` name, with a problem for each of them that holds nothing. */
async function readLayers(options: InputOptions): Promise<Layers> {
  const filename = options.filename ?? [];
  if (filename.length === 0 && options.fromCluster !== true) throw new Stopped(noInput);
  if (options.fromCluster === true && options.base !== undefined) throw new Stopped(twoBases);
  if (filename.includes('-') && options.base?.includes('-')) throw new Stopped(stdinTwice);
  const how = { recursive: options.recursive ?? false, stdin: process.stdin };
  const cluster = options.fromCluster === true ? await clusterSource(options) : undefined;
  if (cluster !== undefined && filename.length === 0) {
    return { change: cluster, base: undefined };
  }
  const change = await readSources(filename, how);
  const base = options.base === undefined ? undefined : await readSources(options.base, how);
  if (cluster !== undefined) return { change: emptyInput(change, '-f', how.recursive), base: cluster };
  return { change: emptyInput(change, '-f', how.recursive), base: base && emptyInput(base, '--base', how.recursive) };
}

/** The cluster as if `sluice snapshot` had written it to a file. */
async function clusterSource(options: InputOptions): Promise<ReadSources> {
  // Loaded here and not before: the client library takes longer than most commands.
  const { printSnapshot } = await import('../cluster/snapshot.ts');
  const { readCluster } = await import('./from-cluster.ts');
  const snapshot = await readCluster(options);
  return { sources: [{ file: 'cluster', text: printSnapshot(snapshot) }], problems: snapshot.notes };
}

const twoBases: Problem = {
  code: 'INPUT_UNREADABLE',
  level: 'error',
  message: 'Cannot take two bases: --base and --from-cluster both name one',
  hint: 'Leave one of the two out',
};

const noInput: Problem = {
  code: 'INPUT_EMPTY',
  level: 'error',
  message: 'Cannot render: neither -f nor --from-cluster says what',
  hint: 'Name manifests with -f, or read the cluster with --from-cluster',
};

const stdinTwice: Problem = {
  code: 'INPUT_UNREADABLE',
  level: 'error',
  message: 'Cannot read standard input twice: -f and --base both name it',
  hint: 'Write one of the two to a file first',
};

/** Where the allocation files of a config are: beside it. Without a config, beside the output. */
export function siblingAllocations(path: string): string {
  return join(dirname(path), 'allocations');
}

/** The config's text for `readConfig`; nothing without a file. */
export function readConfigFile(file: string | undefined): { sluice?: { file: string; text: string } } {
  return file === undefined ? {} : { sluice: { file, text: reading(file, () => readFileSync(file, 'utf8')) } };
}
