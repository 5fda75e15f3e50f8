import type { Level, Problem } from '@sluice/netfilter';
import type { Log } from '@sluice/cli/log';
import type { Access } from '../../cluster/access.ts';
import { readConfigMaps } from '../../cluster/configmap.ts';
import { ClusterFailure } from '../../cluster/failure.ts';
import { watchLimits } from '../../cluster/limits.ts';
import { sleep } from '../../cluster/sleep.ts';
import { makeFolder } from '../../emit/folder.ts';
import { planTree } from '../../emit/tree.ts';
import { readConfig } from '../../load/config/config.ts';
import { load } from '../../load/load.ts';
import type { SluiceConfig } from '../../render/model/config.ts';
import { Stopped, writing } from '../failure/failure.ts';
import { readConfigFile } from '../input/input.ts';
import { isStopped } from '../failure/problems.ts';
import { BundleRepository } from './repository.ts';

/** The output directory of `sluice watch` and its use of Git. */
interface WatchOutput {
  readonly output: string;
  readonly commit?: boolean;
  readonly push?: boolean;
}

/**
 * Checks at the start that the directory can be written and committed, while the operator is there to fix it.
 * @throws Stopped when it has foreign files, cannot be written, or cannot be committed although `commit` is set
 */
export async function checkOutput({ output, commit, push }: WatchOutput, log: Pick<Log, 'info'>): Promise<void> {
  writing(output, () => makeFolder(output));
  const plan = writing(output, () => planTree(output, new Map()));
  if ('code' in plan) throw new Stopped(plan);
  if (commit !== true) return;
  const repository = new BundleRepository(output);
  // Leftovers of a killed process need no manual intervention.
  for (const done of await repository.repair()) log.info({}, `${output}: ${done}`);
  const lack = await repository.missingPrerequisite(push === true);
  if (lack !== undefined) throw new Stopped(lack);
}

/** Logs each problem as one entry, with its hint and its place as fields. */
export function logProblems(log: Log, problems: readonly Problem[]): void {
  for (const { level, message, ...details } of problems) {
    const object = details.object === undefined ? '' : `${details.object}: `;
    log[calls[level]](details, `${object}${message}`);
  }
}

const calls = {
  error: 'error',
  warning: 'warn',
  differs: 'info',
  guess: 'info',
  note: 'info',
} as const satisfies Record<Level, keyof Log>;

/** Callbacks while waiting for a cluster that does not answer. */
export interface ClusterWait {
  readonly signal: AbortSignal;
  readonly away: (failure: ClusterFailure) => void;
  readonly back: () => void;
}

/**
 * Reads the config of the file and kube-proxy's own, as `render` does. Retries until the API server answers.
 * @returns undefined when the signal came first
 * @throws Stopped when a config is invalid, and for errors that a retry does not solve
 */
export async function readClusterConfig(
  access: Access,
  file: string | undefined,
  { log, ...waiting }: ClusterWait & { readonly log: Log },
): Promise<SluiceConfig | undefined> {
  const { objects = [], note } = (await untilAnswered(access, waiting)) ?? {};
  if (waiting.signal.aborted) return undefined;
  const source = { file: 'cluster', text: objects.map((object) => JSON.stringify(object)).join('\n') };
  const { kubeProxy, problems } = load([source]);
  const read = readConfig({ ...readConfigFile(file), kubeProxy });
  const found: Problem[] = [...problems, ...read.problems, ...(note === undefined ? [] : [note])];
  logProblems(log, found);
  const error = found.find(({ level }) => level === 'error');
  if (isStopped(found) && error !== undefined) throw new Stopped(error);
  return read.config;
}

async function untilAnswered(access: Access, { signal, away, back }: ClusterWait) {
  while (!signal.aborted) {
    try {
      const found = await readConfigMaps(access, { ...watchLimits, signal, retrying: away });
      back();
      return found;
    } catch (error) {
      if (!(error instanceof ClusterFailure)) throw error;
      // An aborted request is not a failure.
      if (signal.aborted) return undefined;
      if (error.problem.code !== 'CLUSTER_UNREACHABLE') throw new Stopped(error.problem);
      away(error);
      await sleep(watchLimits.backoffMs, signal);
    }
  }
  return undefined;
}
