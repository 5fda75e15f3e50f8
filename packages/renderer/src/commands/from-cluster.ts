import type { Snapshot } from '../cluster/snapshot.ts';
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
 * Takes a snapshot of a cluster. Its code is loaded here and not before: the client library takes longer than most commands.
 * @throws Stopped when the cluster does not give everything
 */
export async function readCluster(options: ClusterOptions): Promise<Snapshot> {
  const { openAccess } = await import('../cluster/access.ts');
  const { takeSnapshot } = await import('../cluster/snapshot.ts');
  const { ClusterFailure } = await import('../cluster/failure.ts');
  const { kubeconfig, context, selector } = options;
  try {
    const access = openAccess(
      { ...(kubeconfig === undefined ? {} : { kubeconfig }), ...(context === undefined ? {} : { context }) },
      process.env,
    );
    for (const warning of access.warnings) say(`warning: ${warning}\n`);
    const asked = { namespaces: options.namespace ?? [], ...(selector === undefined ? {} : { selector }) };
    return await takeSnapshot(access, asked, { onProgress: progress });
  } catch (error) {
    throw error instanceof ClusterFailure ? new Stopped(error.problem) : error;
  }
}
