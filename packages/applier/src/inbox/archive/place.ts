import {
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import { sumsFile } from '@sluice/bundle';
import type { Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import { syncPath } from '../../state/files.ts';
import { readPlaced } from './read.ts';

/** The directory of imported releases, beside the bundle directory, which is a link to one of them. */
export const releasesPath = (bundle: string): string => `${bundle}.releases`;

/**
 * Creates the store with its lock file, and so finds out early when releases cannot be installed.
 * @throws the error of the file system
 */
export function makeStore(bundle: string): void {
  mkdirSync(releasesPath(bundle), { recursive: true, mode: 0o755 });
  closeSync(openSync(join(releasesPath(bundle), 'lock'), 'a', 0o600));
}

/** A release in the store. */
const placedName = /^\d+-[0-9a-f]{12}(?:\.\d+)?$/;
/** A release that is being written. */
const begunName = /^\.\d+-[0-9a-f]{12}(?:\.\d+)?\.tmp$/;

export interface Placed {
  readonly directory: string;
  /** Whether the bundle directory already was this release. */
  readonly same: boolean;
}

/**
 * Whether a release may be installed under this name.
 * @returns `OUTPUT_NOT_A_BUNDLE` when that would replace other data
 */
export function mayPlace(bundle: string): Problem | undefined {
  if (existsSync(`${bundle}/.git`)) return occupied(bundle, 'it is a Git work tree', 'Pull the release there');
  const stats = lstatSync(bundle, { throwIfNoEntry: false });
  if (stats === undefined || stats.isSymbolicLink()) return undefined;
  const isEmptyOrRelease =
    stats.isDirectory() && (existsSync(`${bundle}/${sumsFile}`) || readdirSync(bundle).length === 0);
  return isEmptyOrRelease ? undefined : occupied(bundle, 'it exists and is not a release', 'Move it away');
}

/**
 * Replaces the bundle directory with a release, atomically: the release is written and synced before a link leads to it, so a reader sees
 * the old release or the new one. Keeps the old one; removes older ones. For one process at a time.
 * @param name its directory in the store, from its serial and digest
 * @returns where it is, or why it could not be synced to the disk
 * @throws the error of the file system: then the bundle directory is unchanged
 */
export async function place(
  bundle: string,
  name: string,
  files: ReadonlyMap<string, string>,
  run: Run,
): Promise<Placed | Problem> {
  const store = releasesPath(bundle);
  const former = linkTarget(bundle);
  const chosen = choose(store, name, files);
  if (chosen.isNew) {
    const unsynced = await write(store, chosen.name, files, run);
    if (unsynced) return unsynced;
  }
  const same = former === chosen.name;
  if (!same) link(bundle, chosen.name);
  prune(store, new Set([chosen.name, former]));
  return { directory: join(store, chosen.name), same };
}

/** The name in the store that the bundle directory leads to. */
function linkTarget(bundle: string): string | undefined {
  if (!lstatSync(bundle, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  const target = readlinkSync(bundle);
  return dirname(target) === basename(releasesPath(bundle)) ? basename(target) : undefined;
}

/** A directory that already holds these files, or a free name: existing releases are never written to. */
function choose(store: string, name: string, files: ReadonlyMap<string, string>): { name: string; isNew: boolean } {
  for (let n = 1; ; n++) {
    const candidate = n === 1 ? name : `${name}.${n}`;
    if (!existsSync(join(store, candidate))) return { name: candidate, isNew: true };
    const there = readPlaced(join(store, candidate));
    const isEqual = there?.size === files.size && [...files].every(([path, text]) => there.get(path) === text);
    if (isEqual) return { name: candidate, isNew: false };
  }
}

/** Syncs all files with one call: syncing thousands of files one by one takes a minute. */
async function write(
  store: string,
  name: string,
  files: ReadonlyMap<string, string>,
  run: Run,
): Promise<Problem | undefined> {
  const temporary = join(store, `.${name}.tmp`);
  try {
    rmSync(temporary, { recursive: true, force: true });
    mkdirSync(temporary, { mode: 0o755 });
    let made = '.';
    for (const path of [...files.keys()].toSorted(compareText)) {
      const folder = dirname(path);
      // Paths are sorted, so the files of one folder are adjacent.
      if (folder !== made) mkdirSync(join(temporary, (made = folder)), { recursive: true, mode: 0o755 });
      writeFileSync(`${temporary}/${path}`, files.get(path) as string, { flag: 'wx', mode: 0o644 });
    }
    const problem = await syncFileSystem(temporary, run);
    if (problem) return problem;
    renameSync(temporary, join(store, name));
    syncPath(store);
    return undefined;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/**
 * Waits until the file system of a directory is on the disk.
 * @returns why it cannot (`OUTPUT_UNWRITABLE`)
 */
export async function syncFileSystem(directory: string, run: Run): Promise<Problem | undefined> {
  const file = findTool('sync');
  const ran = file && (await run({ file, args: ['-f', directory] }));
  if (ran && ran.exitCode === 0) return undefined;
  return refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot sync ${directory} to the disk: ${ran ? ran.why : 'sync is not installed'}`,
    'Check the disk, and that coreutils is installed; then run the command again',
  );
}

/** Moves an existing plain directory into the store first: for a moment there is none, and that changes no rule. */
function link(bundle: string, name: string): void {
  const store = releasesPath(bundle);
  const temporary = `${bundle}.tmp`;
  rmSync(temporary, { force: true });
  symlinkSync(join(basename(store), name), temporary);
  if (lstatSync(bundle, { throwIfNoEntry: false })?.isDirectory()) renameSync(bundle, freeName(store));
  renameSync(temporary, bundle);
  syncPath(dirname(bundle));
}

function freeName(store: string): string {
  for (let n = 1; ; n++) {
    const path = join(store, `before-import.${n}`);
    if (!existsSync(path)) return path;
  }
}

/** Removes older releases, and the leftovers of a killed import. */
function prune(store: string, keep: ReadonlySet<string | undefined>): void {
  for (const name of readdirSync(store))
    if (begunName.test(name) || (placedName.test(name) && !keep.has(name)))
      rmSync(join(store, name), { recursive: true, force: true });
}

function occupied(bundle: string, why: string, hint: string): Problem {
  const message = `Cannot install the release at ${bundle}: ${why}`;
  return refusal('OUTPUT_NOT_A_BUNDLE', message, `${hint}, or set \`bundle\` in sluiced.yaml to another path`);
}
