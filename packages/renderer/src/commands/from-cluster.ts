import { type Access, openAccess } from '../cluster/access.ts';
import { ClusterFailure } from '../cluster/failure.ts';
import { type Snapshot, takeSnapshot } from '../cluster/snapshot.ts';
import { Stopped } from './failure.ts';
import { progress, say } from './progress.ts';

/** The options with which a command says which cluster it reads, as whom, and what of it. */
export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: readonly string[];
  readonly selector?: string;
}

/**
 * Finds the way to a cluster, and says what is not as it should be about it.
 * @throws Stopped when there is none
 */
export function openCluster({ kubeconfig, context }: ClusterOptions): Access {
  const options = { ...(kubeconfig !== undefined && { kubeconfig }), ...(context !== undefined && { context }) };
  try {
    const access = openAccess(options, process.env);
    for (const warning of access.warnings) say(`warning: ${warning}\n`);
    return access;
  } catch (error) {
    throw stopped(error);
  }
}

/**
 * Takes a snapshot of a cluster.
 * @throws Stopped when the cluster does not give everything
 */
export async function readCluster(options: ClusterOptions): Promise<Snapshot> {
  const { selector } = options;
  const access = openCluster(options);
  const asked = { namespaces: options.namespace ?? [], ...(selector === undefined ? {} : { selector }) };
  return stopping(() => takeSnapshot(access, asked, { onProgress: progress }));
}

/** Runs what talks to a cluster; its failure ends the command. */
export async function stopping<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw stopped(error);
  }
}

function stopped(error: unknown): unknown {
  return error instanceof ClusterFailure ? new Stopped(error.problem) : error;
}
