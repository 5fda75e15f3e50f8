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
import { compareText, type Problem, sumsFile } from '@sluice/bundle';
import type { Run } from '../kernel/run.ts';
import { findTool } from '../kernel/tools.ts';
import { syncDirectory } from '../store/files.ts';
import { readPlaced } from './read.ts';

/** Where releases lie that were imported: beside the bundle directory, which is a link to one of them. */
export const storeOf = (bundle: string): string => `${bundle}.releases`;

/**
 * Makes the store with the file of its lock: where that cannot be written, it is told here that releases cannot be placed.
 * @throws what the file system throws
 */
export function makeStore(bundle: string): void {
  mkdirSync(storeOf(bundle), { recursive: true, mode: 0o755 });
  closeSync(openSync(join(storeOf(bundle), 'lock'), 'a', 0o600));
}

/** A release in the store. */
const placedName = /^\d+-[0-9a-f]{12}(?:\.\d+)?$/;
/** One that is being written. */
const begunName = /^\.\d+-[0-9a-f]{12}(?:\.\d+)?\.tmp$/;

export interface Placed {
  readonly directory: string;
  /** Whether that is what stood there before. */
  readonly same: boolean;
}

/**
 * Whether a release may be placed under this name.
 * @returns `OUTPUT_NOT_A_BUNDLE` when something else is there that somebody may miss
 */
export function mayPlace(bundle: string): Problem | undefined {
  if (existsSync(`${bundle}/.git`)) return occupied(bundle, 'it is a Git work tree', 'Pull the release there');
  const stats = lstatSync(bundle, { throwIfNoEntry: false });
  if (stats === undefined || stats.isSymbolicLink()) return undefined;
  const isEmptyOrRelease =
    stats.isDirectory() && (existsSync(`${bundle}/${sumsFile}`) || readdirSync(bundle).length === 0);
  return isEmptyOrRelease ? undefined : occupied(bundle, 'something that is no release is there', 'Move it away');
}

/**
 * Makes a release what the bundle directory is, at once: it is written and on the disk before a link leads to it, and whoever looks
 * sees the former release or this one. The former one stays beside it; older ones go. To be called by one process at a time.
 * @param name its directory in the store, from its serial and digest
 * @returns where it lies, or why the disk could not be told to keep it
 * @throws what the file system throws: then the bundle directory is what it was
 */
export async function place(
  bundle: string,
  name: string,
  files: ReadonlyMap<string, string>,
  run: Run,
): Promise<Placed | Problem> {
  const store = storeOf(bundle);
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
  return dirname(target) === basename(storeOf(bundle)) ? basename(target) : undefined;
}

/** A directory that already holds these very files, or a name that is free: what is there is never written to. */
function choose(store: string, name: string, files: ReadonlyMap<string, string>): { name: string; isNew: boolean } {
  for (let n = 1; ; n++) {
    const candidate = n === 1 ? name : `${name}.${n}`;
    if (!existsSync(join(store, candidate))) return { name: candidate, isNew: true };
    const there = readPlaced(join(store, candidate));
    const isEqual = there?.size === files.size && [...files].every(([path, text]) => there.get(path) === text);
    if (isEqual) return { name: candidate, isNew: false };
  }
}

/** One call brings all files to the disk: thousands of files, each synced by itself, would take a minute. */
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
      // Paths are sorted, so the files of one folder follow each other.
      if (folder !== made) mkdirSync(join(temporary, (made = folder)), { recursive: true, mode: 0o755 });
      writeFileSync(`${temporary}/${path}`, files.get(path) as string, { flag: 'wx', mode: 0o644 });
    }
    const problem = await syncFileSystem(temporary, run);
    if (problem) return problem;
    renameSync(temporary, join(store, name));
    syncDirectory(store);
    return undefined;
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

async function syncFileSystem(directory: string, run: Run): Promise<Problem | undefined> {
  const file = findTool('sync');
  const ran = file && (await run({ file, args: ['-f', directory] }));
  if (ran && ran.exitCode === 0) return undefined;
  return {
    code: 'OUTPUT_UNWRITABLE',
    level: 'error',
    message: `Cannot bring ${directory} to the disk: ${ran ? ran.why : 'the node has no sync'}`,
    hint: 'See that the disk is well, and that coreutils is installed; then run it again',
  };
}

/** A plain directory from before goes into the store first: for that moment nothing is there, and that changes no rule. */
function link(bundle: string, name: string): void {
  const store = storeOf(bundle);
  const temporary = `${bundle}.tmp`;
  rmSync(temporary, { force: true });
  symlinkSync(join(basename(store), name), temporary);
  if (lstatSync(bundle, { throwIfNoEntry: false })?.isDirectory()) renameSync(bundle, freeName(store));
  renameSync(temporary, bundle);
  syncDirectory(dirname(bundle));
}

function freeName(store: string): string {
  for (let n = 1; ; n++) {
    const path = join(store, `before-import.${n}`);
    if (!existsSync(path)) return path;
  }
}

/** Also what an import that was killed has begun. */
function prune(store: string, keep: ReadonlySet<string | undefined>): void {
  for (const name of readdirSync(store))
    if (begunName.test(name) || (placedName.test(name) && !keep.has(name)))
      rmSync(join(store, name), { recursive: true, force: true });
}

function occupied(bundle: string, why: string, hint: string): Problem {
  const message = `Cannot place a release at ${bundle}: ${why}`;
  return {
    code: 'OUTPUT_NOT_A_BUNDLE',
    level: 'error',
    message,
    hint: `${hint}, or set \`bundle\` in sluiced.yaml to another path`,
  };
}
