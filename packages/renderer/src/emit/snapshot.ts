import { randomUUID } from 'node:crypto';
import { closeSync, fsyncSync, mkdirSync, openSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { removeFile } from './file.ts';

/** The file of a directory that says what the others are: it comes last and goes first. */
const headerFile = 'snapshot.yaml';

/**
 * Writes a snapshot: into a directory when one is there or the path ends with a slash, otherwise into one file.
 * @param files the header under `snapshot.yaml`, and the objects of each kind
 * @param kinds every file that a directory may have from an earlier snapshot
 * @throws the error of the file system; then what was there before is still there, whole
 */
export function writeSnapshot(output: string, files: ReadonlyMap<string, string>, kinds: readonly string[]): void {
  const there = statSync(output, { throwIfNoEntry: false });
  if (output.endsWith('/') || there?.isDirectory()) writeSet(output, files, kinds);
  else if (there && !there.isFile()) writeFileSync(output, [...files.values()].join(''));
  else replaceAll(dirname(output), [[output, [...files.values()].join('')]]);
}

/** Everything is on the disk before the first name changes, and a set without its header is no snapshot. */
function writeSet(dir: string, files: ReadonlyMap<string, string>, kinds: readonly string[]): void {
  const parts = [...files].filter(([name]) => name !== headerFile);
  const header = [...files].filter(([name]) => name === headerFile);
  const paths = [...parts, ...header].map(([name, text]) => [join(dir, name), text] as const);
  replaceAll(dir, paths, () => {
    removeFile(join(dir, headerFile));
    for (const kind of kinds) if (!files.has(kind)) removeFile(join(dir, kind));
  });
}

/** Whole or not at all: a snapshot cut short would take Services away. */
function replaceAll(dir: string, files: readonly (readonly [string, string])[], between = (): void => {}): void {
  mkdirSync(dir, { recursive: true });
  // A name of its own, so that two that write one snapshot at a time do not mix their bytes.
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
