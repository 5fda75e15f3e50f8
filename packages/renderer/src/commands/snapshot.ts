import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { printSnapshot, type Snapshot, snapshotFiles } from '../cluster/snapshot.ts';
import { exitCodes } from '../exit.ts';
import { writing } from './failure.ts';
import { type ClusterOptions, readCluster } from './from-cluster.ts';
import { print, say } from './progress.ts';

/** `sluice snapshot`: reads a cluster and writes what it holds as one file, as a directory, or to stdout. */
export async function snapshotCommand(options: ClusterOptions & { readonly output: string }): Promise<number> {
  const snapshot = await readCluster(options);
  const { output } = options;
  if (output === '-') print(printSnapshot(snapshot));
  else writing(output, () => writeSnapshot(output, snapshot));
  const counts = [...snapshot.parts].map(([resource, objects]) => `${objects.length} ${resource}`).join(', ');
  say(`${output === '-' ? 'snapshot' : output}: ${counts}\n`);
  return exitCodes.done;
}

/** A directory when one is there or the name ends with a slash; otherwise a file. */
function writeSnapshot(output: string, snapshot: Snapshot): void {
  const isDirectory = output.endsWith('/') || statSync(output, { throwIfNoEntry: false })?.isDirectory();
  if (!isDirectory) return replace(output, printSnapshot(snapshot));
  mkdirSync(output, { recursive: true });
  const files = snapshotFiles(snapshot);
  for (const [name, text] of files) replace(join(output, name), text);
  // A kind that an earlier snapshot had: its objects are no longer in the cluster.
  for (const name of ['configmaps.yaml', 'endpoints.yaml', 'endpointslices.yaml']) {
    if (!files.has(name)) rmSync(join(output, name), { force: true });
  }
}

/** Whole or not at all: a snapshot cut short would take Services away. */
function replace(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  const unfinished = `${file}.unfinished`;
  writeFileSync(unfinished, text, { flush: true });
  renameSync(unfinished, file);
}
