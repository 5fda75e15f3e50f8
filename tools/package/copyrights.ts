/** Debian's copyright files, which the image contains for the files that it takes from Debian. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { PackageError } from './run.ts';

/** The licence texts that copyright files refer to. */
const commonLicences = '/usr/share/common-licenses';

/**
 * Finds the Debian packages of files.
 * @param paths absolute; on a system with merged /usr dpkg may have a path without its /usr
 */
export function packagesOf(paths: readonly string[]): readonly string[] {
  const spellings = (path: string): readonly string[] =>
    [path, realpathSync(path)].flatMap((one) => [one, one.replace(/^\/usr/, '')]);
  const queried = new Map(paths.map((path) => [path, spellings(path)] as const));
  // It exits with 1 when it does not know a path, but prints the others all the same.
  const { stdout } = execaSync('dpkg', ['-S', ...new Set([...queried.values()].flat())], {
    reject: false,
    env: { LC_ALL: 'C' },
  });
  const owners = new Map(stdout.split('\n').map((line) => line.split(': ', 2).toReversed() as [string, string]));
  const found = [...queried].map(([path, all]) => {
    const owner = all.map((one) => owners.get(one)).find((one) => one !== undefined);
    if (owner !== undefined) return owner.replace(/[:,].*$/, '');
    throw new PackageError(
      `Cannot find the package of ${path}: dpkg does not know it`,
      'Build on a Debian system with files of its packages only',
    );
  });
  return [...new Set(found)].toSorted();
}

/** Copyright files of packages and the texts that they refer to: path below `/` → path on this machine. */
export function copyrightFiles(packages: readonly string[]): Readonly<Record<string, string>> {
  const own = packages.map((name) => `/usr/share/doc/${name}/copyright`);
  const missing = own.find((path) => !existsSync(path));
  if (missing !== undefined)
    throw new PackageError(
      `Cannot distribute the package of ${missing}: the file is missing`,
      'Install the package anew, with its documentation',
    );
  const common = readdirSync(commonLicences).map((name) => join(commonLicences, name));
  return Object.fromEntries([...own, ...common].map((path) => [path.slice(1), realpathSync(path)]));
}
