import { lstatSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { allocationPath, printAllocation } from '../load/allocations.ts';
import type { Allocation } from '../render/allocate/allocation.ts';
import { makeFolder } from './folder.ts';

/**
 * Writes `<dir>/<namespace>/<name>.yaml` for each allocation, each whole or not at all: a file cut short would hold no number,
 * and the Service would get another one.
 * @throws what the file system throws
 */
export function writeAllocations(dir: string, allocations: readonly Allocation[]): void {
  for (const allocation of allocations) {
    const file = join(dir, allocationPath(allocation));
    makeOwnFolder(dirname(file));
    const unfinished = join(dirname(file), `.${allocation.name}.unfinished`);
    // A link under that name would lead elsewhere.
    rmSync(unfinished, { force: true });
    writeFileSync(unfinished, printAllocation(allocation), { flag: 'wx', flush: true });
    renameSync(unfinished, file);
  }
}

/**
 * Removes the file of each allocation, and folders of namespaces that are empty then.
 * @throws what the file system throws
 */
export function removeAllocations(dir: string, allocations: readonly Allocation[]): void {
  for (const allocation of allocations) rmSync(join(dir, allocationPath(allocation)), { force: true });
  for (const namespace of new Set(allocations.map((allocation) => allocation.namespace))) {
    const folder = join(dir, namespace);
    if (readdirSync(folder).length === 0) rmdirSync(folder);
  }
}

/** A link in its place would lead elsewhere: it is in the way, as a file there would be. */
function makeOwnFolder(path: string): void {
  makeFolder(dirname(path));
  if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) mkdirSync(path);
}
