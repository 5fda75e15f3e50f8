import { lstatSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { allocationPath, printAllocation } from '../load/allocations.ts';
import type { Allocation } from '../render/allocate/allocation.ts';
import { makeFolder } from './folder.ts';

/**
 * Writes `<dir>/<namespace>/<name>.yaml` for each allocation, each atomically: after a truncated file the Service would get another
 * address or port.
 * @throws errors of the file system
 */
export function writeAllocations(dir: string, allocations: readonly Allocation[]): void {
  for (const allocation of allocations) {
    const file = join(dir, allocationPath(allocation));
    makeOwnFolder(dirname(file));
    const unfinished = join(dirname(file), `.${allocation.name}.unfinished`);
    // A link with that name could point elsewhere.
    rmSync(unfinished, { force: true });
    writeFileSync(unfinished, printAllocation(allocation), { flag: 'wx', flush: true });
    renameSync(unfinished, file);
  }
}

/**
 * Removes the file of each allocation, and folders of namespaces that become empty.
 * @throws errors of the file system
 */
export function removeAllocations(dir: string, allocations: readonly Allocation[]): void {
  for (const allocation of allocations) rmSync(join(dir, allocationPath(allocation)), { force: true });
  for (const namespace of new Set(allocations.map((allocation) => allocation.namespace))) {
    const folder = join(dir, namespace);
    if (readdirSync(folder).length === 0) rmdirSync(folder);
  }
}

/** Refuses a link, which could point elsewhere, like a file. */
function makeOwnFolder(path: string): void {
  makeFolder(dirname(path));
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) mkdirSync(path);
}
