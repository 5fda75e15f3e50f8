import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Problem, refusal } from '@sluice/netfilter';
import { readAllocations } from '../../load/allocations.ts';
import { readConfig } from '../../load/config/config.ts';
import { load } from '../../load/load.ts';
import { type ReadSources, readSources } from '../../load/sources.ts';
import type { RenderInput } from '../../render/render.ts';
import { emptyInput } from './empty.ts';
import { reading, Stopped } from '../failure/failure.ts';
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
  /** The bundle directory, in commands that write one. */
  readonly output?: string;
}

/** The input of `render`, with the problems found while reading it. */
export interface Input {
  readonly input: RenderInput;
  /** The number of ignored objects, by kind. */
  readonly ignored: ReadonlyMap<string, number>;
  /** The directory of the allocation files. */
  readonly allocationsDir: string;
  readonly problems: readonly Problem[];
}

/**
 * Reads the config, the manifests, the base and the allocation files.
 * @returns all that could be read, and every problem: after one of level `error` nothing may be written
 * @throws Stopped when the config cannot be read, or when two layers are read from standard input
 */
export async function readInput(options: InputOptions): Promise<Input> {
  return inputOf(await readLayers(options), options);
}

/** The layers to render, before they are parsed. */
interface Layers {
  readonly change: ReadSources;
  /** The current state of the cluster; undefined without a base. */
  readonly base: ReadSources | undefined;
}

/**
 * Parses the layers and reads the config and the allocation files.
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
      // With a base, the API server allocates addresses: a second allocator would hand out the same ones.
      allocate: !hasBase && snapshots.length === 0,
      snapshot: (hasBase || snapshots.length > 0) && snapshots.every((isComplete) => isComplete),
      strict: options.strict ?? false,
    },
    ignored: changed.ignored,
    allocationsDir,
    problems: [change, base, changed, based, config, allocations].flatMap((part) => part?.problems ?? []),
  };
}

/** Reads `-f` and `--base`, with a problem for each that is empty. */
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

/** Reads the cluster as if `sluice snapshot` had written it to a file. */
async function clusterSource(options: InputOptions): Promise<ReadSources> {
  // Loaded on demand: loading the client library takes longer than most commands.
  const { printSnapshot } = await import('../../cluster/snapshot.ts');
  const { readCluster } = await import('./from-cluster.ts');
  const snapshot = await readCluster(options);
  return { sources: [{ file: 'cluster', text: printSnapshot(snapshot) }], problems: snapshot.notes };
}

const twoBases = refusal(
  'INPUT_UNREADABLE',
  'Cannot use two bases: both --base and --from-cluster are given',
  'Remove one of the two options',
);

const noInput = refusal(
  'INPUT_EMPTY',
  'Nothing to render: neither -f nor --from-cluster is given',
  'Pass -f FILE or --from-cluster',
);

const stdinTwice = refusal(
  'INPUT_UNREADABLE',
  'Cannot read standard input twice: both -f and --base are -',
  'Write one of the two to a file first',
);

/** The directory of the allocation files: beside the config, or beside the output without one. */
export function siblingAllocations(path: string): string {
  return join(dirname(path), 'allocations');
}

/** Reads the text of the config for `readConfig`; empty without a file. */
export function readConfigFile(file: string | undefined): { sluice?: { file: string; text: string } } {
  return file === undefined ? {} : { sluice: { file, text: reading(file, () => readFileSync(file, 'utf8')) } };
}
