/** A repository for apt: static files, which any web server or directory can hold. */
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { PackageRelease } from './deb.ts';
import { filesBelow } from './executable.ts';
import { architectures, type Arch } from './node.ts';
import { run } from './run.ts';
import type { Signer } from './sign.ts';
import { withoutClock } from './tree.ts';

const suite = 'stable';

/**
 * Writes `apt/` with the Debian packages that are in a folder, and signs it.
 * @param target the folder with the packages, and of the repository
 * @param signer without a key apt takes no repository
 */
export function buildAptRepository(
  archs: readonly Arch[],
  release: PackageRelease,
  target: string,
  signer: Signer,
): void {
  const root = join(target, 'apt');
  const dists = join(root, 'dists', suite);
  mkdirSync(join(root, 'pool'), { recursive: true });
  for (const name of filesBelow(target).filter((path) => /^[^/]+\.deb$/.test(path)))
    copyFileSync(join(target, name), join(root, 'pool', name));
  const debian = archs.map((arch) => architectures[arch].debian);
  for (const arch of debian) {
    const folder = join(dists, 'main', `binary-${arch}`);
    mkdirSync(folder, { recursive: true });
    const packages = run('dpkg-scanpackages', ['--multiversion', '--arch', arch, 'pool'], { cwd: root });
    writeFileSync(join(folder, 'Packages'), packages);
    writeFileSync(join(folder, 'Packages.gz'), withoutClock(gzipSync(packages)));
  }
  writeFileSync(join(dists, 'Release'), releaseFile(dists, debian, release));
  signer.inline(join(dists, 'Release'), join(dists, 'InRelease'));
  signer.detached(join(dists, 'Release'), join(dists, 'Release.gpg'));
  signer.publicKey(join(root, 'sluice.gpg'));
}

/** The index of the indices, which the signature covers: https://wiki.debian.org/DebianRepository/Format. */
function releaseFile(dists: string, debian: readonly string[], { epoch }: PackageRelease): string {
  const digests = filesBelow(join(dists, 'main')).map((path) => {
    const bytes = readFileSync(join(dists, 'main', path));
    return ` ${createHash('sha256').update(bytes).digest('hex')} ${bytes.length} main/${path}`;
  });
  return [
    'Origin: Sluice',
    'Label: Sluice',
    `Suite: ${suite}`,
    `Codename: ${suite}`,
    `Date: ${new Date(epoch * 1000).toUTCString()}`,
    `Architectures: ${debian.join(' ')}`,
    'Components: main',
    'SHA256:',
    ...digests,
    '',
  ].join('\n');
}
