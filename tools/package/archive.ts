/** Tar files that depend on nothing but names, modes and contents. */
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Release } from './deb.ts';
import { filesBelow } from './executable.ts';
import type { Arch } from './node.ts';
import { run } from './run.ts';
import { copyAs } from './tree.ts';

/** Writes a folder, or what is in it, as a tar file: sorted, owned by root, of one time. */
export function tar(folder: string, epoch: number, target: string, contentsOnly: boolean): void {
  const where = contentsOnly ? ['-C', folder, '.'] : ['-C', dirname(folder), basename(folder)];
  const same = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner', '--format=gnu'];
  run('tar', ['--create', ...same, '--mode=u=rwX,go=rX', `--file=${target}`, ...where]);
}

/**
 * Writes sluice-VERSION-linux-ARCH.tar.zst and returns its name: the tree below one folder, with a page on how to install it by hand.
 * Both executables hold the same Node: a window of 128 MiB, which every zstd reads without being asked, stores it once.
 */
export function buildArchive(root: string, tree: string, arch: Arch, release: Release, target: string): string {
  const name = `sluice-${release.version}-linux-${arch}`;
  const staged = join(dirname(tree), name);
  cpSync(tree, staged, { recursive: true });
  writeFileSync(
    join(staged, 'MANIFEST'),
    filesBelow(tree)
      .map((path) => `/${path}\n`)
      .join(''),
  );
  copyAs(join(root, 'packaging/README-archive.md'), join(staged, 'README.md'), 0o644);
  tar(staged, release.epoch, `${staged}.tar`, false);
  run('zstd', [
    '-q',
    '-6',
    '--single-thread',
    '--long=27',
    '-f',
    `${staged}.tar`,
    '-o',
    join(target, `${name}.tar.zst`),
  ]);
  rmSync(staged, { recursive: true });
  rmSync(`${staged}.tar`);
  return `${name}.tar.zst`;
}
