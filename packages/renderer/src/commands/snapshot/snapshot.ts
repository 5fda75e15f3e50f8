import type { Format } from '@sluice/cli';
import { printSnapshot, snapshotFiles, snapshotKinds } from '../../cluster/snapshot.ts';
import { writeSnapshot } from '../../emit/snapshot.ts';
import { exitCodes } from '../../exit.ts';
import { writing } from '../failure/failure.ts';
import { type ClusterOptions, readCluster } from '../input/from-cluster.ts';
import { print, say } from '../output/progress.ts';
import { printDocument, reportProblems } from '../output/output.ts';

interface SnapshotOptions extends ClusterOptions {
  readonly report: Format;
  /** `-`, a file, or a directory. */
  readonly output: string;
  /** Replace names and addresses. */
  readonly redact?: boolean;
}

/** `sluice snapshot`: reads a cluster and writes its state to a file, a directory or standard output. */
export async function snapshotCommand(options: SnapshotOptions): Promise<number> {
  const taken = await readCluster(options);
  const snapshot = options.redact ? (await import('../../cluster/redact/redact.ts')).redact(taken) : taken;
  const { output } = options;
  if (output === '-') print(printSnapshot(snapshot));
  else writing(output, () => writeSnapshot(output, snapshotFiles(snapshot), snapshotKinds));
  reportProblems(snapshot.notes);
  const counts = [...snapshot.parts].map(([resource, objects]) => `${objects.length} ${resource}`).join(', ');
  say(`${output === '-' ? 'snapshot' : output}: ${counts}\n`);
  const objects = Object.fromEntries([...snapshot.parts].map(([resource, list]) => [resource, list.length]));
  printDocument(options.report, 'SnapshotResult', { output, objects }, output === '-');
  return exitCodes.done;
}
