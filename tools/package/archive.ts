/** Tar files that depend only on names, modes and contents. */
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { PackageRelease } from './deb.ts';
import { filesBelow } from './executable.ts';
import type { Arch } from './node.ts';
import { run } from './run.ts';
import { copyAs } from './tree.ts';

const same = (epoch: number): readonly string[] => [
  '--sort=name',
  `--mtime=@${epoch}`,
  '--owner=0',
  '--group=0',
  '--numeric-owner',
  '--format=gnu',
];

/** Writes a folder as a tar file: sorted, owned by root, of one time. */
export function tar(folder: string, epoch: number, target: string): void {
  const options = ['--create', ...same(epoch), '--mode=u=rwX,go=rX', `--file=${target}`];
  run('tar', [...options, '-C', dirname(folder), basename(folder)]);
}

/** Writes the contents of a folder in the same way. @param open empty world-writable folders in it, such as /tmp */
export function tarContents(folder: string, epoch: number, target: string, open: readonly string[] = []): void {
  const paths = open.map((name) => `./${name}`);
  const excluded = paths.map((path) => `--exclude=${path}`);
  const options = ['--create', ...same(epoch), '--mode=u=rwX,go=rX', `--file=${target}`];
  run('tar', [...options, '--anchored', ...excluded, '-C', folder, '.']);
  if (open.length > 0)
    run('tar', ['--append', ...same(epoch), '--mode=1777', `--file=${target}`, '-C', folder, ...paths]);
}

/**
 * Writes sluice-VERSION-linux-ARCH.tar.zst and returns its name: the tree below one folder, with a page on manual installation.
 */
export function buildArchive(root: string, tree: string, arch: Arch, release: PackageRelease, target: string): string {
  const name = `sluice-${release.version}-linux-${arch}`;
  const staged = join(dirname(tree), name);
  cpSync(tree, staged, { recursive: true, verbatimSymlinks: true });
  writeFileSync(
    join(staged, 'MANIFEST'),
    filesBelow(tree)
      .map((path) => `/${path}\n`)
      .join(''),
  );
  copyAs(join(root, 'packaging/README-archive.md'), join(staged, 'README.md'), 0o644);
  tar(staged, release.epoch, `${staged}.tar`);
  run('zstd', ['-q', '-12', '--single-thread', '-f', `${staged}.tar`, '-o', join(target, `${name}.tar.zst`)]);
  rmSync(staged, { recursive: true });
  rmSync(`${staged}.tar`);
  return `${name}.tar.zst`;
}
