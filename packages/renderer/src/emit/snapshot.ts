import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { removeFile } from './file.ts';

/** The header of a snapshot directory: written last and removed first. */
const headerFile = 'snapshot.yaml';

/**
 * Writes a snapshot: into a directory when one is there or the path ends with a slash, otherwise into one file.
 * @param files the header `snapshot.yaml` and the objects of each kind
 * @param kinds all files that an earlier snapshot may have left in the directory
 * @throws errors of the file system; then the previous snapshot is still complete
 */
export function writeSnapshot(output: string, files: ReadonlyMap<string, string>, kinds: readonly string[]): void {
  const there = statSync(output, { throwIfNoEntry: false });
  if (output.endsWith('/') || there?.isDirectory()) writeSet(output, files, kinds);
  else if (there && !there.isFile()) writeFileSync(output, [...files.values()].join(''));
  else replaceAll(dirname(output), [[output, [...files.values()].join('')]]);
}

/** All files are on the disk before the first rename, and a directory without the header is not a snapshot. */
function writeSet(dir: string, files: ReadonlyMap<string, string>, kinds: readonly string[]): void {
  const parts = [...files].filter(([name]) => name !== headerFile);
  const header = [...files].filter(([name]) => name === headerFile);
  const paths = [...parts, ...header].map(([name, text]) => [join(dir, name), text] as const);
  replaceAll(dir, paths, () => {
    removeFile(join(dir, headerFile));
    for (const kind of kinds) if (!files.has(kind)) removeFile(join(dir, kind));
  });
}

/** Replaces files atomically: a truncated snapshot would remove Services. */
function replaceAll(dir: string, files: readonly (readonly [string, string])[], between = (): void => {}): void {
  mkdirSync(dir, { recursive: true });
  // A unique name, so that two concurrent writers do not mix their bytes.
  const unfinished = files.map(([path, text]) => ({ path, text, at: `${path}.${randomUUID()}.unfinished` }));
  try {
    for (const { at, text } of unfinished) writeFileSync(at, text, { flush: true });
    between();
    for (const { at, path } of unfinished) renameSync(at, path);
  } finally {
    for (const { at } of unfinished) removeFile(at);
  }
  flushDirectory(dir);
}

function flushDirectory(dir: string): void {
  const fd = openSync(dir, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
