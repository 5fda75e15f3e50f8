/** The images, each as one index with an image of each architecture. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { PackageRelease } from '../deb.ts';
import { type Platform, writeImage } from '../image.ts';
import { type Arch, architectures } from '../node.ts';
import { type DebianPackage, fetchPackages } from './fetch.ts';
import { type ImagePlan, packageNames, plans } from './plans.ts';
import { unpack } from './pool.ts';
import { layOutRoot } from './root.ts';

/** The parts of all images for one architecture. */
export interface ImageParts {
  /** In the order of the plans. */
  readonly platforms: readonly Platform[];
  readonly debianArch: string;
  /** Of which files are in any of them. */
  readonly packages: readonly DebianPackage[];
}

/**
 * Fetches tools, and lays out the roots for one architecture.
 * @param tree the installed files, as `layOut` made them for it
 * @param ofNode the folder that `buildExecutable` filled with the programs of a node
 * @param work a folder that does not exist; the roots stay in it
 */
export function layOutImages(tree: string, ofNode: string, arch: Arch, work: string): ImageParts {
  const debianArch = architectures[arch].debian;
  const pool = unpack(fetchPackages(debianArch, packageNames, join(work, 'apt')), join(work, 'pool'));
  const used = new Set<DebianPackage>();
  const platforms = plans.map((plan) => {
    const root = join(work, plan.title);
    mkdirSync(root);
    const ours = (path: string): string =>
      plan.isOfNode && path === 'usr/bin' ? join(ofNode, 'bin') : join(tree, path);
    for (const one of layOutRoot(plan, ours, arch, pool, root)) used.add(one);
    const base = 'Debian GNU/Linux 13 (trixie)';
    return { architecture: debianArch, root, open: plan.open, config: configOf(plan), base };
  });
  for (const folder of ['apt', 'pool']) rmSync(join(work, folder), { recursive: true });
  return { platforms, debianArch, packages: pool.packages.filter((one) => used.has(one)) };
}

const configOf = ({ user: { id, home }, path, entrypoint }: ImagePlan): object => ({
  User: `${id}:${id}`,
  // An image has no templates of git (examples of hooks); without this git would warn at each clone.
  Env: [`PATH=${path}`, `HOME=${home}`, 'LANG=C.UTF-8', 'GIT_TEMPLATE_DIR='],
  Entrypoint: [entrypoint],
  WorkingDir: id === 0 ? '/' : home,
});

/** Writes sluice-VERSION-image.tar and sluice-node-VERSION-image.tar, and returns their names. @param work a folder that does not exist */
export function buildImages(
  parts: readonly ImageParts[],
  work: string,
  release: PackageRelease,
  target: string,
): readonly string[] {
  return plans.map(({ title }, index) => {
    const name = `${title}-${release.version}-image.tar`;
    const platforms = parts.flatMap((part) => part.platforms[index] ?? []);
    writeImage(title, platforms, work, release, join(target, name));
    return name;
  });
}
