/** The Debian package. */
import { createHash } from 'node:crypto';
import { cpSync, lstatSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { filesBelow } from './executable.ts';
import { type Arch, architectures } from './node.ts';
import { PackageError, run } from './run.ts';
import { orderedVersion } from '../version.ts';
import { copyAs } from './tree.ts';

export interface PackageRelease {
  readonly version: string;
  /** Seconds since 1970: the time of the commit. Every file of a package has it. */
  readonly epoch: number;
}

/**
 * Writes sluice_VERSION_ARCH.deb and returns its name.
 * @param tree what is installed, as `layOut` made it
 */
export function buildDeb(root: string, tree: string, arch: Arch, release: PackageRelease, target: string): string {
  const staged = `${tree}.deb`;
  cpSync(tree, staged, { recursive: true, verbatimSymlinks: true });
  const control = join(staged, 'DEBIAN');
  mkdirSync(control);
  writeFileSync(join(control, 'md5sums'), sums(tree));
  writeFileSync(join(control, 'control'), controlFile(root, tree, arch, orderedVersion(release.version)));
  for (const script of ['postinst', 'prerm', 'postrm']) {
    copyAs(join(root, 'packaging/debian', script), join(control, script), 0o755);
  }
  run('chmod', ['-R', 'u=rwX,go=rX', staged]);
  const name = `sluice_${orderedVersion(release.version)}_${architectures[arch].debian}.deb`;
  // zstd: xz would take minutes. dpkg reads zstd since Debian 12 and Ubuntu 22.04. More threads would give other bytes.
  const options = ['--root-owner-group', '-Zzstd', '-z6', '--threads-max=1', '--build', staged, join(target, name)];
  run('dpkg-deb', options, { environment: { SOURCE_DATE_EPOCH: String(release.epoch) } });
  rmSync(staged, { recursive: true });
  return name;
}

function controlFile(root: string, tree: string, arch: Arch, version: string): string {
  const bytes = filesBelow(tree).reduce((sum, path) => sum + lstatSync(join(tree, path)).size, 0);
  return readFileSync(join(root, 'packaging/debian/control'), 'utf8')
    .replace('@VERSION@', version)
    .replace('@ARCH@', architectures[arch].debian)
    .replace('@MAINTAINER@', () => maintainer(root))
    .replace('@SIZE@', String(Math.ceil(bytes / 1024)));
}

/** The package's maintainer: DEBFULLNAME and DEBEMAIL, as in Debian's own tools, or the author in package.json. */
export function maintainer(root: string): string {
  const { DEBFULLNAME: name, DEBEMAIL: address } = process.env;
  if (name === undefined && address === undefined)
    return (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { author: string }).author;
  const whole = `${name ?? ''} <${address ?? ''}>`;
  if (/^[^<>\n]+ <[^<>@\s]+@[^<>@\s]+>$/.test(whole)) return whole;
  throw new PackageError(
    `Cannot use ${whole} as the maintainer: it is not of the form "NAME <ADDRESS>"`,
    'Set both DEBFULLNAME and DEBEMAIL, or neither',
  );
}

/** For `dpkg --verify`, which knows no links. */
function sums(tree: string): string {
  const digest = (path: string): string =>
    createHash('md5')
      .update(readFileSync(join(tree, path)))
      .digest('hex');
  return filesBelow(tree)
    .filter((path) => lstatSync(join(tree, path)).isFile())
    .map((path) => `${digest(path)}  ${path}\n`)
    .join('');
}
