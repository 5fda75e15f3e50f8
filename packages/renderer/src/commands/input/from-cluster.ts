import { type Access, openAccess } from '../../cluster/access.ts';
import { ClusterFailure } from '../../cluster/failure.ts';
import { type Snapshot, takeSnapshot } from '../../cluster/snapshot.ts';
import { Stopped } from '../failure/failure.ts';
import { progress, say } from '../output/progress.ts';

/** The options that select a cluster, the credentials and the Services to read. */
export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: readonly string[];
  readonly selector?: string;
}

/**
 * Opens the access to a cluster and prints warnings about its kubeconfig.
 * @throws Stopped when there is no usable kubeconfig
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
 * @throws Stopped when the cluster does not return everything
 */
export async function readCluster(options: ClusterOptions): Promise<Snapshot> {
  const { selector } = options;
  const access = openCluster(options);
  const asked = { namespaces: options.namespace ?? [], ...(selector === undefined ? {} : { selector }) };
  return stopping(() => takeSnapshot(access, asked, { onProgress: progress }));
}

/** Runs a call to a cluster; its failure ends the command. */
async function stopping<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw stopped(error);
  }
}

function stopped(error: unknown): unknown {
  return error instanceof ClusterFailure ? new Stopped(error.problem) : error;
}
