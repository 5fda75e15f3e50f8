/** The package for systems with rpm, and a repository of them: static files, which any web server or directory can hold. */
import {
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { orderedVersion } from '../version.ts';
import { maintainer, type PackageRelease } from './deb.ts';
import { filesBelow } from './executable.ts';
import { type Arch, architectures } from './node.ts';
import { run } from './run.ts';
import type { Signer } from './sign.ts';

/** Folders that are the package's own; others belong to packages of the system. */
const ownFolders = ['usr/lib/sluice', 'usr/share/sluice', 'usr/share/doc/sluice'];

/** Fixed values of what rpmbuild would take from the machine. zstd is read since RHEL 8.2. */
const settings = {
  _buildhost: 'reproducible',
  use_source_date_epoch_as_buildtime: '1',
  clamp_mtime_to_source_date_epoch: '1',
  source_date_epoch_from_changelog: '0',
  _binary_payload: 'w12.zstdio',
} as const;

/**
 * Writes sluice-VERSION-1.ARCH.rpm and returns its name.
 * @param tree what is installed, as `layOut` made it
 */
export function buildRpm(root: string, tree: string, arch: Arch, release: PackageRelease, target: string): string {
  const work = `${tree}.rpm`;
  const staged = join(work, 'tree');
  cpSync(tree, staged, { recursive: true, verbatimSymlinks: true });
  // Outside of Debian zsh looks here.
  renameSync(join(staged, 'usr/share/zsh/vendor-completions'), join(staged, 'usr/share/zsh/site-functions'));
  run('chmod', ['-R', 'u=rwX,go=rX', staged]);
  const files = join(work, 'files');
  writeFileSync(files, fileList(staged));
  writeFileSync(join(work, 'sluice.spec'), specText(root, staged, files, release));
  const defines = { ...settings, _topdir: work, _rpmdir: work, _rpmfilename: 'sluice.rpm' };
  const options = Object.entries(defines).flatMap(([name, value]) => ['--define', `${name} ${value}`]);
  run(
    'rpmbuild',
    ['-bb', '--quiet', '--target', `${architectures[arch].rpm}-linux`, ...options, join(work, 'sluice.spec')],
    {
      environment: { SOURCE_DATE_EPOCH: String(release.epoch), HOME: work },
    },
  );
  const name = `sluice-${orderedVersion(release.version)}-1.${architectures[arch].rpm}.rpm`;
  copyFileSync(join(work, 'sluice.rpm'), join(target, name));
  rmSync(work, { recursive: true });
  return name;
}

/** All files, and the folders below those that are the package's own. */
function fileList(tree: string): string {
  const files = filesBelow(tree);
  const isOwn = (path: string): boolean => ownFolders.some((own) => `${path}/`.startsWith(`${own}/`));
  const folders = [...new Set(files.map(dirname))].filter(isOwn).map((path) => `%dir /${path}\n`);
  return [...folders, ...files.map((path) => `/${path}\n`)].join('');
}

function specText(root: string, tree: string, files: string, { version }: PackageRelease): string {
  const script = (name: string): string =>
    readFileSync(join(root, 'packaging/debian', name), 'utf8')
      .replace('#!/bin/sh\n', '')
      .replaceAll('%', '%%')
      .trimEnd();
  const values: Readonly<Record<string, string>> = {
    VERSION: orderedVersion(version),
    MAINTAINER: maintainer(root),
    TREE: tree,
    FILES: files,
    postinst: script('postinst'),
    prerm: script('prerm'),
    postrm: script('postrm'),
  };
  return readFileSync(join(root, 'packaging/rpm/sluice.spec'), 'utf8').replaceAll(
    /@(\w+)@/g,
    (whole, name: string) => values[name] ?? whole,
  );
}

/**
 * Signs the packages of rpm that are in a folder, and writes `rpm/` with them and signed metadata.
 * @param target the folder with the packages, and of the repository
 */
export function buildRpmRepository({ epoch }: PackageRelease, target: string, signer: Signer): void {
  const root = join(target, 'rpm');
  mkdirSync(root);
  for (const name of readdirSync(target).filter((one) => one.endsWith('.rpm'))) {
    signer.rpm(join(target, name));
    copyFileSync(join(target, name), join(root, name));
    utimesSync(join(root, name), epoch, epoch);
  }
  const fixed = ['--revision', String(epoch), '--set-timestamp-to-revision', '--no-database'];
  run('createrepo_c', ['--quiet', ...fixed, root]);
  signer.detached(join(root, 'repodata/repomd.xml'), join(root, 'repodata/repomd.xml.asc'));
  signer.armouredKey(join(root, 'sluice.asc'));
}
