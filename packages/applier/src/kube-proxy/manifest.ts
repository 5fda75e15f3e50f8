import { lstatSync, renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { KernelError } from '../ports/kernel.ts';
import { syncPath } from '../state/files.ts';

/**
 * Where the manifest of a static pod waits: the kubelet ignores names that begin with a dot, and stops a pod whose manifest is gone. In the
 * same folder it is one rename, there and back, which no crash can tear.
 */
export const heldPath = (manifest: string): string => join(dirname(manifest), `.sluiced-adopt.${basename(manifest)}`);

/** Hides the manifest from the kubelet. @throws KernelError where there is none */
export const holdManifest = (manifest: string): void => move(manifest, heldPath(manifest));

/** Gives the manifest back to the kubelet. @throws KernelError where there is none */
export const releaseManifest = (manifest: string): void => move(heldPath(manifest), manifest);

const exists = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

function move(from: string, to: string): void {
  if (exists(to) && !exists(from)) return;
  try {
    if (exists(to)) throw new Error(`${to} exists already`);
    renameSync(from, to);
    syncPath(dirname(to));
  } catch (error) {
    throw new KernelError(`rename of ${from}`, (error as Error).message);
  }
}
