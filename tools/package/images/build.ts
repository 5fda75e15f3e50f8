/** The image of nodes, for deploy/sluiced.yaml: one index with an image of each architecture. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { PackageRelease } from '../deb.ts';
import { type Platform, writeImage } from '../image.ts';
import { type Arch, architectures } from '../node.ts';
import { type DebianPackage, fetchPackages } from './fetch.ts';
import { unpack } from './pool.ts';
import { layOutNodeImage, packageNames } from './root.ts';

/** The part of the image for one architecture. */
export interface NodePlatform {
  readonly platform: Platform;
  readonly debianArch: string;
  readonly packages: readonly DebianPackage[];
}

/**
 * Fetches tools, and lays out the root for one architecture.
 * @param tree the installed files, as `layOut` made them for it
 * @param work a folder that does not exist; the root stays in it
 */
export function layOutPlatform(tree: string, arch: Arch, work: string): NodePlatform {
  const debianArch = architectures[arch].debian;
  const pool = unpack(fetchPackages(debianArch, packageNames, join(work, 'apt')), join(work, 'pool'));
  const root = join(work, 'root');
  mkdirSync(root);
  const packages = layOutNodeImage(tree, arch, pool, root);
  for (const folder of ['apt', 'pool']) rmSync(join(work, folder), { recursive: true });
  const platform = { architecture: debianArch, root, open: ['tmp'], config, base: 'Debian GNU/Linux 13 (trixie)' };
  return { platform, debianArch, packages };
}

/** Root: the state and the rules of a node belong to it, and tools have capabilities as root alone. */
const config = {
  User: '0:0',
  Env: ['PATH=/usr/sbin:/usr/bin', 'HOME=/tmp', 'LANG=C.UTF-8', 'GIT_TEMPLATE_DIR='],
  Entrypoint: ['/usr/bin/sluiced'],
  WorkingDir: '/',
};

/** Writes sluice-node-VERSION-image.tar and returns its name. @param work a folder that does not exist */
export function buildNodeImage(
  parts: readonly NodePlatform[],
  work: string,
  release: PackageRelease,
  target: string,
): string {
  const name = `sluice-node-${release.version}-image.tar`;
  writeImage(
    'sluice-node',
    parts.map(({ platform }) => platform),
    work,
    release,
    join(target, name),
  );
  return name;
}
