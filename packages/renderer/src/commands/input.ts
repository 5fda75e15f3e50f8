import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Problem } from '@sluice/bundle';
import { readAllocations } from '../load/allocations.ts';
import { readConfig } from '../load/config/config.ts';
import { load } from '../load/load.ts';
import { readSources } from '../load/sources.ts';
import type { RenderInput } from '../render/render.ts';

/** The options of every command that reads manifests. */
export interface InputOptions {
  readonly filename: readonly string[];
  readonly recursive: boolean;
  readonly base: readonly string[];
  readonly config?: string;
  readonly strict: boolean;
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
 */
export async function readInput(options: InputOptions): Promise<Input> {
  const how = { recursive: options.recursive, stdin: process.stdin };
  const change = await readSources(options.filename, how);
  const base = await readSources(options.base, how);
  const changed = load(change.sources);
  const based = load(base.sources);
  const config = readConfig({
    ...readConfigFile(options.config),
    kubeProxy: [...based.kubeProxy, ...changed.kubeProxy],
  });
  const allocationsDir = siblingAllocations(options.config ?? options.output ?? 'sluice.yaml');
  const hasBase = options.base.length > 0;
  const allocations = readAllocations(allocationsDir);
  return {
    input: {
      base: based.objects,
      change: changed.objects,
      config: config.config,
      allocations: allocations.allocations,
      // With a base the API server has the last word on addresses: two allocators would give out the same ones.
      allocate: !hasBase,
      snapshot: hasBase,
      strict: options.strict,
    },
    passedOver: changed.passedOver,
    allocationsDir,
    problems: [change, base, changed, based, config, allocations].flatMap((part) => part.problems),
  };
}

/** Where the allocation files of a config are: beside it. Without a config, beside the output. */
export function siblingAllocations(path: string): string {
  return join(dirname(path), 'allocations');
}

/** The config's text for `readConfig`; nothing without a file. */
export function readConfigFile(file: string | undefined): { sluice?: { file: string; text: string } } {
  return file === undefined ? {} : { sluice: { file, text: readFileSync(file, 'utf8') } };
}
