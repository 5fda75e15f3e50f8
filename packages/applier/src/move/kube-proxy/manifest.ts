import { KernelError } from '../../ports/failure.ts';
import { lstatSync, renameSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { syncPath } from '../../state/files.ts';

/**
 * Where the manifest of a static pod waits: the kubelet ignores names that begin with a dot (`pkg/kubelet/config/file.go`, `file_linux.go`),
 * and stops a pod whose manifest is gone. In the same folder it is one rename, there and back, which no crash can tear.
 */
export const heldPath = (manifest: string): string => join(dirname(manifest), `.sluiced-adopt.${basename(manifest)}`);

/** Why there is no manifest to hide; undefined: there is one, or it is hidden already. */
export function refuseManifest(manifest: string): string | undefined {
  const stats =
    lstatSync(manifest, { throwIfNoEntry: false }) ?? lstatSync(heldPath(manifest), { throwIfNoEntry: false });
  if (!stats) return `there is no ${manifest}`;
  return stats.isFile() || stats.isSymbolicLink() ? undefined : `${manifest} is no file`;
}

/**
 * Hides the manifest from the kubelet; also one that was written again after an earlier call, such as by RKE2 when it starts.
 * @throws KernelError where there is none
 */
export function holdManifest(manifest: string): void {
  if (exists(manifest) || !exists(heldPath(manifest))) move(manifest, heldPath(manifest));
}

/**
 * Gives the manifest back to the kubelet. One that was written again meanwhile stays, and the hidden one is removed.
 * @throws KernelError
 */
export function releaseManifest(manifest: string): void {
  const held = heldPath(manifest);
  if (!exists(held)) return;
  if (!exists(manifest)) return move(held, manifest);
  try {
    rmSync(held, { force: true });
  } catch (error) {
    throw new KernelError(`removal of ${held}`, (error as Error).message, 'short');
  }
}

const exists = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

function move(from: string, to: string): void {
  try {
    renameSync(from, to);
    syncPath(dirname(to));
  } catch (error) {
    throw new KernelError(`rename of ${from}`, (error as Error).message, 'short');
  }
}
