/** Unpacked Debian packages, from which an image takes single files. Their maintainer scripts never run. */
import { lstatSync, mkdirSync, readlinkSync, realpathSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PackageError, run } from '../run.ts';
import { copyAs } from '../tree.ts';
import type { DebianPackage } from './fetch.ts';

export interface Pool {
  readonly root: string;
  readonly packages: readonly DebianPackage[];
  /** Path below the root → the package that has it. */
  readonly owners: ReadonlyMap<string, DebianPackage>;
}

/** Unpacks packages into one root. */
export function unpack(packages: readonly DebianPackage[], root: string): Pool {
  mkdirSync(root, { recursive: true });
  const owners = new Map<string, DebianPackage>();
  for (const one of packages) {
    const names = run('dpkg-deb', ['--vextract', one.file, root]).split('\n');
    for (const name of names.filter((line) => line !== '' && !line.endsWith('/'))) owners.set(name.slice(2), one);
  }
  return { root, packages, owners };
}

/**
 * Copies files of a pool into the same places of an image, symbolic links with what they point to.
 * @param paths below the root of the pool
 * @param copied gets all paths that are now in the image
 */
export function copyFiles(pool: Pool, paths: readonly string[], folder: string, copied: Set<string>): void {
  for (const path of paths) {
    if (copied.has(path)) continue;
    copied.add(path);
    const from = join(pool.root, path);
    const found = lstatSync(from, { throwIfNoEntry: false });
    if (found === undefined)
      throw new PackageError(`Cannot build an image: no package has ${path}`, 'Name its package in plans.ts');
    if (!found.isSymbolicLink()) copyAs(from, join(folder, path), found.mode & 0o111 ? 0o755 : 0o644);
    else {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      symlinkSync(readlinkSync(from), join(folder, path));
      copyFiles(pool, [realpathSync(from).slice(realpathSync(pool.root).length + 1)], folder, copied);
    }
  }
}

/**
 * The libraries that ELF files of an image need and do not find in it yet, and the loader.
 * @param files absolute paths of ELF files
 * @param folders of libraries below the root of the pool, in the order of the loader
 * @param given names of libraries that are there anyway
 * @returns paths below the root of the pool, sorted
 */
export function librariesOf(
  pool: Pool,
  files: readonly string[],
  folders: readonly string[],
  given: ReadonlySet<string>,
): readonly string[] {
  const found = new Set<string>();
  for (let open = files; open.length > 0; ) {
    const needed = neededBy(open).filter((name) => !given.has(name));
    const fresh = [...new Set(needed.map((name) => libraryPath(pool, folders, name)))].filter((one) => !found.has(one));
    for (const path of fresh) found.add(path);
    open = fresh.map((path) => realpathSync(join(pool.root, path)));
  }
  return [...found].toSorted();
}

/** Names of libraries (`libc.so.6`) and paths of loaders, as the dynamic sections and program headers have them. */
function neededBy(files: readonly string[]): readonly string[] {
  const printed = run('readelf', ['--wide', '--dynamic', '--program-headers', ...files]);
  return [
    ...printed.matchAll(/\(NEEDED\).*\[(.+)\]$/gm),
    ...printed.matchAll(/\[Requesting program interpreter: (.+)\]/g),
  ].map((match) => match[1] as string);
}

function libraryPath(pool: Pool, folders: readonly string[], name: string): string {
  if (name.startsWith('/')) return `usr${name}`;
  const path = folders.map((folder) => `${folder}/${name}`).find((one) => pool.owners.has(one));
  if (path !== undefined) return path;
  throw new PackageError(`Cannot build an image: no package has ${name}`, 'Name its package in plans.ts');
}
