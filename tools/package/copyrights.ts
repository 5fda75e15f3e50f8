/** What Debian says about the licences of its files: the image hands them on with the files. */
import { existsSync, readdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { PackageError } from './run.ts';

/** Whole texts that copyright files refer to. */
const commonLicences = '/usr/share/common-licenses';

/**
 * The packages that brought files of this machine.
 * @param paths absolute; on a merged system dpkg may know a file without its /usr
 */
export function packagesOf(paths: readonly string[]): readonly string[] {
  const spellings = (path: string): readonly string[] =>
    [path, realpathSync(path)].flatMap((one) => [one, one.replace(/^\/usr/, '')]);
  const asked = new Map(paths.map((path) => [path, spellings(path)] as const));
  // It ends with 1 when it does not know one of them, and tells of the others all the same.
  const { stdout } = execaSync('dpkg', ['-S', ...new Set([...asked.values()].flat())], {
    reject: false,
    env: { LC_ALL: 'C' },
  });
  const owners = new Map(stdout.split('\n').map((line) => line.split(': ', 2).toReversed() as [string, string]));
  const found = [...asked].map(([path, all]) => {
    const owner = all.map((one) => owners.get(one)).find((one) => one !== undefined);
    if (owner !== undefined) return owner.replace(/[:,].*$/, '');
    throw new PackageError(
      `Cannot say whose ${path} is: dpkg does not know it`,
      'Build on a Debian whose files are its own',
    );
  });
  return [...new Set(found)].toSorted();
}

/** Copyright files of packages and the texts that they refer to: path below `/` → where it is here. */
export function copyrightFiles(packages: readonly string[]): Readonly<Record<string, string>> {
  const own = packages.map((name) => `/usr/share/doc/${name}/copyright`);
  const missing = own.find((path) => !existsSync(path));
  if (missing !== undefined)
    throw new PackageError(
      `Cannot hand out what ${missing} is about: it is not there`,
      'Install the package anew, with its documentation',
    );
  const common = readdirSync(commonLicences).map((name) => join(commonLicences, name));
  return Object.fromEntries([...own, ...common].map((path) => [path.slice(1), realpathSync(path)]));
}
