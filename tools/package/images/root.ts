/** The root of an image: our programs, and tools from packages of Debian. */
import {
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type Arch, architectures } from '../node.ts';
import type { DebianPackage } from './fetch.ts';
import { fetchId, type ImagePlan, passwd, sluiceId } from './plans.ts';
import { copyFiles, librariesOf, type Pool } from './pool.ts';

/** In every image; those of a plan come on top. Maintainer scripts of Debian, which do not run, make some of them elsewhere. */
const links: Readonly<Record<string, string>> = {
  'usr/lib/git-core/git': '../../bin/git',
  'etc/os-release': '../usr/lib/os-release',
  bin: 'usr/bin',
  lib: 'usr/lib',
};

/**
 * Fills a folder with the root of an image.
 * @param ours where an installed file or folder for this architecture is
 * @returns the packages that have a file in it, by name
 */
export function layOutRoot(
  plan: ImagePlan,
  ours: (path: string) => string,
  arch: Arch,
  pool: Pool,
  folder: string,
): readonly DebianPackage[] {
  const { gnu } = architectures[arch];
  for (const path of plan.ours) cpSync(ours(path), join(folder, path), { recursive: true, verbatimSymlinks: true });
  const copied = new Set<string>();
  const loaded = plan.loaded.flatMap((pattern) => globSync(`usr/lib/${gnu}/${pattern}`, { cwd: pool.root }).toSorted());
  copyFiles(pool, [...plan.files, 'usr/lib/os-release', ...loaded], folder, copied);
  const elves = elfFiles(folder);
  const libraries = librariesOf(pool, elves, [`usr/lib/${gnu}`, 'usr/lib'], new Set(['libatomic.so.1']));
  copyFiles(pool, libraries, folder, copied);
  const used = usedPackages(pool, copied);
  for (const { name, control } of used) {
    copyFiles(pool, [`usr/share/doc/${name}/copyright`], folder, copied);
    // Scanners of images read the versions here.
    write(folder, `var/lib/dpkg/status.d/${name}`, control);
  }
  copyFiles(pool, globSync('usr/share/common-licenses/*', { cwd: pool.root }).toSorted(), folder, copied);
  write(folder, 'etc/ssl/certs/ca-certificates.crt', certificates(pool));
  write(folder, 'etc/passwd', passwd);
  write(folder, 'etc/group', `root:x:0:\nsluice:x:${sluiceId}:\nsluice-fetch:x:${fetchId}:\n`);
  write(folder, 'etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n');
  const library64 = existsSync(join(folder, 'usr/lib64')) ? { lib64: 'usr/lib64' } : {};
  for (const [path, target] of Object.entries({ ...links, ...plan.links, ...library64 })) link(folder, path, target);
  for (const path of [...plan.emptyFolders, ...plan.open]) mkdirSync(join(folder, path), { recursive: true });
  return used;
}

/** The absolute paths of all ELF files below a folder. */
function elfFiles(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => lstatSync(path).isFile() && readFileSync(path).subarray(0, 4).toString('latin1') === '\x7fELF')
    .toSorted();
}

/** Certificates are of a package whose installation joins them into one file. */
function usedPackages(pool: Pool, copied: ReadonlySet<string>): readonly DebianPackage[] {
  const owners = new Set([...copied].map((path) => pool.owners.get(path)));
  return pool.packages.filter((one) => owners.has(one) || one.name === 'ca-certificates');
}

function certificates(pool: Pool): string {
  const names = globSync('usr/share/ca-certificates/mozilla/*.crt', { cwd: pool.root }).toSorted();
  return names.map((name) => `${readFileSync(join(pool.root, name), 'utf8').trimEnd()}\n`).join('');
}

function write(folder: string, path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function link(folder: string, path: string, target: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  symlinkSync(target, join(folder, path));
}
