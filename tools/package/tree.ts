/** The tree of installed files. */
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { constants, gzipSync } from 'node:zlib';
import { completionScript, type Shell } from '../../packages/cli/src/scripts.ts';
import { programNames } from '../bundle.ts';

/** Path in the checkout → path in the tree. Man pages are compressed. */
const files: Readonly<Record<string, string>> = {
  'packages/applier/systemd/sluiced.service': 'usr/lib/systemd/system/sluiced.service',
  'packages/applier/systemd/sluiced-fetch.service': 'usr/lib/systemd/system/sluiced-fetch.service',
  'packages/applier/systemd/sluiced-boot.service': 'usr/lib/systemd/system/sluiced-boot.service',
  'packages/applier/systemd/sluiced-rehearse.socket': 'usr/lib/systemd/system/sluiced-rehearse.socket',
  'packages/applier/systemd/sluiced-rehearse@.service': 'usr/lib/systemd/system/sluiced-rehearse@.service',
  'deploy/sluice-watch.service': 'usr/share/sluice/sluice-watch.service',
  'deploy/sluice-watch.service.d/node.conf': 'usr/share/sluice/sluice-watch.service.d/node.conf',
  'deploy/sluice-watch.service.d/live.conf': 'usr/share/sluice/sluice-watch.service.d/live.conf',
  'integrations/vip/sluice-vip': 'usr/share/sluice/sluice-vip',
  'docs/sluiced.yaml': 'usr/share/sluice/sluiced.yaml',
  'packaging/modules-load.conf': 'usr/lib/modules-load.d/sluice.conf',
  'packaging/sysusers.conf': 'usr/lib/sysusers.d/sluice.conf',
  'packaging/tmpfiles.conf': 'usr/lib/tmpfiles.d/sluice.conf',
  'docs/man/sluice.1': 'usr/share/man/man1/sluice.1.gz',
  'docs/man/sluiced.8': 'usr/share/man/man8/sluiced.8.gz',
  'docs/schema/sluiceconfig.schema.json': 'usr/share/sluice/sluiceconfig.schema.json',
  'docs/schema/sluicedconfig.schema.json': 'usr/share/sluice/sluicedconfig.schema.json',
  'docs/schema/waves.schema.json': 'usr/share/sluice/waves.schema.json',
  'README.md': 'usr/share/doc/sluice/README.md',
  'CHANGELOG.md': 'usr/share/doc/sluice/CHANGELOG.md',
  LICENSE: 'usr/share/doc/sluice/copyright',
};

/** Below `usr`: the licence texts of third-party software inside the executables. */
export const licences = 'share/doc/sluice/THIRD-PARTY-LICENSES';

/** Documentation for nodes without a network. */
const documents = [
  'docs/runbooks',
  'docs/install.md',
  'docs/adopt.md',
  'docs/render.md',
  'docs/review.md',
  'docs/pictures',
  'docs/cluster.md',
  'docs/release.md',
  'docs/apply.md',
  'docs/fetch.md',
  'docs/ten-nodes.md',
  'docs/vip.md',
  'docs/limits.md',
  'docs/limits-review.md',
  'docs/limits-node.md',
  'docs/limits-modes.md',
  'docs/performance.md',
  'docs/glossary.md',
  'docs/threats.md',
  'docs/problems.md',
  'docs/policy.md',
  'docs/protected-table.md',
  'docs/alerts.md',
  'docs/exit-codes.md',
  'docs/kube-proxy-versions.md',
  'docs/kube-proxy-metrics.md',
] as const;

/** The path of a program's completion script, by shell. */
const completions: Readonly<Record<Shell, (name: string) => string>> = {
  bash: (name) => `usr/share/bash-completion/completions/${name}`,
  zsh: (name) => `usr/share/zsh/vendor-completions/_${name}`,
  fish: (name) => `usr/share/fish/vendor_completions.d/${name}.fish`,
};

/**
 * Fills a folder with the files that both the Debian package and the archive install.
 * @param root the checkout
 * @param executables the folder that `buildExecutable` filled for one architecture
 * @param tree the folder to fill, as `/`
 */
export function layOut(root: string, executables: string, tree: string): void {
  mkdirSync(tree, { recursive: true });
  cpSync(executables, join(tree, 'usr'), { recursive: true, verbatimSymlinks: true });
  for (const [from, to] of Object.entries(files)) {
    const bytes = readFileSync(join(root, from));
    put(tree, to, to.endsWith('.gz') ? withoutClock(gzipSync(bytes, { level: constants.Z_BEST_COMPRESSION })) : bytes);
  }
  for (const [from, to] of documentFiles(root)) put(tree, to, readFileSync(join(root, from)));
  for (const shell of Object.keys(completions) as readonly Shell[]) {
    for (const name of programNames) put(tree, completions[shell](name), Buffer.from(completionScript(name, shell)));
  }
}

/** Path in the checkout → path in the tree. */
function documentFiles(root: string): readonly (readonly [from: string, to: string])[] {
  const paths = documents.flatMap((path) => filesBelow(root, path));
  return [
    ...paths.map((path) => [path, join('usr/share/doc/sluice', path.slice('docs/'.length))] as const),
    ['packages/bundle/README.md', 'usr/share/doc/sluice/bundle-format.md'],
  ];
}

/** The absolute paths of installed documentation and config, which messages may name. */
export const installedFiles = (root: string): readonly string[] =>
  [...Object.values(files), ...documentFiles(root).map(([, to]) => to)].map((path) => `/${path}`);

/** A file, or all files of a folder, as paths below the checkout. */
function filesBelow(root: string, path: string): readonly string[] {
  if (!statSync(join(root, path)).isDirectory()) return [path];
  return readdirSync(join(root, path))
    .toSorted()
    .map((name) => join(path, name));
}

/** Byte 9 of a gzip file is the operating system that wrote it. zlib writes no time. */
export function withoutClock(bytes: Buffer): Buffer {
  bytes[9] = 255;
  return bytes;
}

function put(tree: string, path: string, bytes: Buffer): void {
  const target = join(tree, path);
  mkdirSync(dirname(target), { recursive: true });
  writeFileSync(target, bytes);
  chmodSync(target, 0o644);
}

/** Copies a file with a given mode, independent of the umask. */
export function copyAs(from: string, to: string, mode: number): void {
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
  chmodSync(to, mode);
}
