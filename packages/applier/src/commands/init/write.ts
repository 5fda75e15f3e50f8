import { refusal } from '@sluice/netfilter';
import { linkSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { reasonOf } from '@sluice/cli';
import { CommandError } from '../../command-error.ts';
import { isThere, readIfThere, syncPath } from '../../state/files.ts';

/**
 * Writes files in order, each whole or not at all. Nothing is written where one of them is there with another text.
 * @param files path → text; they name no secret, so all users may read them, and only root can write them afterwards
 * @param force overwrites them
 * @returns the paths that were written; a file that has its text already is left alone
 * @throws CommandError (`OUTPUT_UNWRITABLE`)
 */
export function writeFiles(files: ReadonlyMap<string, string>, force: boolean): readonly string[] {
  const changed = [...files].filter(([path, text]) => readIfThere(path) !== text);
  const existing = force ? [] : changed.filter(([path]) => isThere(path));
  if (existing.length > 0) throw new CommandError(existing.map(([path]) => unwritable(path, alreadyThere)));
  for (const [path, text] of changed) writeWhole(path, text, force);
  return changed.map(([path]) => path);
}

function writeWhole(path: string, text: string, force: boolean): void {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}`);
  try {
    writeFileSync(temporary, text, { flag: 'wx', mode: 0o644, flush: true });
    // A link, other than a rename, fails where the file is there.
    if (force) renameSync(temporary, path);
    else linkSync(temporary, path);
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EEXIST';
    const why = isTaken ? alreadyThere : reasonOf(Object.assign(error as Error, { path }));
    throw new CommandError([unwritable(path, why)]);
  } finally {
    rmSync(temporary, { force: true });
  }
  syncPath(dirname(path));
}

const alreadyThere = 'it already exists';

const unwritable = (path: string, why: string) =>
  refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot write ${path}: ${why}`,
    why === alreadyThere
      ? 'Print a new one with `sluiced init -`, or overwrite this one with --force'
      : `Make ${dirname(path)} as root, or pass another file`,
  );
