/** The licence texts of third-party software inside the executables. */
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Arch } from './node.ts';
import { PackageError } from './run.ts';
import { reachedPackages } from './sbom.ts';

const isLicence = (name: string): boolean => /^((un)?licen[cs]e|copying|notice)(\W|$)/i.test(name);
const line = '='.repeat(80);

/**
 * The licences of Node and its parts, of libatomic, and of each package that our code depends on, by name.
 * @param root the checkout, with node_modules
 * @param lockfile the text of pnpm-lock.yaml
 * @param arch of this machine, whose Node is installed with its texts
 */
export function licenceTexts(root: string, lockfile: string, arch: Arch): string {
  const node = realpathSync(join(root, 'node_modules', `node-linux-${arch}`));
  const parts = [
    `Sluice is under the Apache License 2.0, see "copyright" beside this file. Its executables contain the following software.\n`,
    part('Node.js', textsOf(node)),
    part('libatomic', [libatomic]),
    ...reachedPackages(lockfile).map((key) => part(key, textsOf(folderOf(root, key)))),
  ];
  return parts.join('\n');
}

function part(name: string, texts: readonly string[]): string {
  if (texts.length === 0)
    throw new PackageError(
      `Cannot distribute ${name}: it has no licence text`,
      'Find the text and add its path to tools/package/licences.ts, or leave the package out',
    );
  return `${line}\n${name}\n${line}\n\n${texts.map((text) => `${text.trim()}\n`).join('\n')}`;
}

function textsOf(folder: string): readonly string[] {
  return readdirSync(folder)
    .filter(isLicence)
    .toSorted()
    .map((name) => readFileSync(join(folder, name), 'utf8').replaceAll('\r\n', '\n'));
}

/** The folder of a package in pnpm's store. @param key `name@version`, with its peers in brackets, which are ignored */
function folderOf(root: string, key: string): string {
  const plain = key.replace(/\(.*$/, '');
  const name = plain.slice(0, plain.lastIndexOf('@'));
  const store = realpathSync(join(root, 'node_modules', '.pnpm'));
  const start = plain.replace('/', '+');
  const found = readdirSync(store).find((entry) => entry === start || entry.startsWith(`${start}_`));
  const folder = found === undefined ? undefined : join(store, found, 'node_modules', name);
  if (folder !== undefined && existsSync(folder)) return folder;
  throw new PackageError(`Cannot read the licence of ${plain}: it is not installed`, 'Run ./dev setup');
}

const libatomic = `libatomic is part of GCC: GNU General Public License, version 3 or later, with the GCC Runtime Library Exception, version 3.1, which
lets it be part of programs under any licence. Both texts: https://www.gnu.org/licenses/gpl-3.0.html and
https://www.gnu.org/licenses/gcc-exception-3.1.html; on Debian /usr/share/common-licenses/GPL-3.`;
