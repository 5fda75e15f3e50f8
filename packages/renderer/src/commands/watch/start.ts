import type { Level, Problem } from '@sluice/bundle';
import type { Log } from '@sluice/cli/log';
import type { Access } from '../../cluster/access.ts';
import { readConfigMap } from '../../cluster/configmap.ts';
import { ClusterFailure } from '../../cluster/failure.ts';
import { watchLimits } from '../../cluster/limits.ts';
import { sleep } from '../../cluster/sleep.ts';
import { makeFolder } from '../../emit/folder.ts';
import { planTree } from '../../emit/tree.ts';
import { readConfig } from '../../load/config/config.ts';
import { load } from '../../load/load.ts';
import type { SluiceConfig } from '../../render/config.ts';
import { Stopped, writing } from '../failure.ts';
import { readConfigFile } from '../input.ts';
import { isStopped } from '../render.ts';
import { Repository } from './repository.ts';

/** What a directory must be for `sluice watch` to keep it. */
export interface Place {
  readonly output: string;
  readonly commit?: boolean;
  readonly push?: boolean;
}

/**
 * Looks whether the directory can be kept: who starts the program is there to mend it now, and not later.
 * @throws Stopped when it holds something else, cannot be written, or cannot be committed though it should
 */
export async function checkPlace({ output, commit, push }: Place, log: Pick<Log, 'info'>): Promise<void> {
  writing(output, () => makeFolder(output));
  const plan = writing(output, () => planTree(output, new Map()));
  if ('code' in plan) throw new Stopped(plan);
  if (commit !== true) return;
  const repository = new Repository(output);
  // What an earlier process was killed at is nothing that a person has to mend.
  for (const done of await repository.mend()) log.info({}, `${output}: ${done}`);
  const lack = await repository.lacks(push === true);
  if (lack !== undefined) throw new Stopped(lack);
}

/** Each problem is an entry: its hint and its place are fields. */
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

/** How a cluster that does not answer is waited for. */
export interface Waiting {
  readonly signal: AbortSignal;
  readonly away: (why: string) => void;
  readonly back: () => void;
}

/**
 * The config of the file over kube-proxy's own, as `render` takes it. While the API server does not answer it is asked again.
 * @returns undefined when the signal came first
 * @throws Stopped when a config is not valid, and for what waiting does not mend
 */
export async function readClusterConfig(
  access: Access,
  file: string | undefined,
  { log, ...waiting }: Waiting & { readonly log: Log },
): Promise<SluiceConfig | undefined> {
  const { object, note } = (await patiently(access, waiting)) ?? {};
  if (waiting.signal.aborted) return undefined;
  const source = { file: 'cluster', text: JSON.stringify(object ?? null) };
  const { kubeProxy, problems } = load(object === undefined ? [] : [source]);
  const read = readConfig({ ...readConfigFile(file), kubeProxy });
  const found: Problem[] = [...problems, ...read.problems, ...(note === undefined ? [] : [note])];
  logProblems(log, found);
  const error = found.find(({ level }) => level === 'error');
  if (isStopped(found) && error !== undefined) throw new Stopped(error);
  return read.config;
}

async function patiently(access: Access, { signal, away, back }: Waiting) {
  while (!signal.aborted) {
    try {
      const found = await readConfigMap(access, { ...watchLimits, signal });
      back();
      return found;
    } catch (error) {
      if (!(error instanceof ClusterFailure)) throw error;
      // What a signal ends did not fail.
      if (signal.aborted) return undefined;
      if (error.problem.code !== 'CLUSTER_UNREACHABLE') throw new Stopped(error.problem);
      away(error.message);
      await sleep(watchLimits.backoffMs, signal);
    }
  }
  return undefined;
}
