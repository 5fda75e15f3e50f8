/** Archives of `sluice` alone, for Linux and macOS: what krew and Homebrew install. */
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bundleProgram } from '../bundle.ts';
import { tar } from './archive.ts';
import type { PackageRelease } from './deb.ts';
import { type Arch, nodeBinary, type System } from './node.ts';
import { copyAs, licences, withoutClock } from './tree.ts';

/** Path in the archive → path below `usr` of the installed files, where it is another one. */
const files = {
  'share/man/man1/sluice.1.gz': '',
  'share/bash-completion/completions/sluice': '',
  // Where Homebrew looks.
  'share/zsh/site-functions/_sluice': 'share/zsh/vendor-completions/_sluice',
  'share/fish/vendor_completions.d/sluice.fish': '',
  'share/doc/sluice/copyright': '',
  [licences]: '',
} as const;

/** What pipelines start, below `integrations` as in a checkout. */
const integrations = ['review.sh', 'github', 'gitlab', 'kubectl-diff', 'kustomize'] as const;

/** The executable that was built for nodes, with its library. */
function copyExecutable(tree: string, staged: string): void {
  copyAs(join(tree, 'usr/bin/sluice'), join(staged, 'bin/sluice'), 0o755);
  copyAs(join(tree, 'usr/lib/sluice/libatomic.so.1'), join(staged, 'lib/sluice/libatomic.so.1'), 0o644);
}

/**
 * Node stays as it was published, beside the program: an executable that was changed after its signature is killed by macOS, and Gatekeeper
 * knows the signature of Node's publisher.
 */
async function copyNode(root: string, arch: Arch, staged: string, version: string): Promise<void> {
  copyAs(join(root, 'packaging/start.sh'), join(staged, 'bin/sluice'), 0o755);
  copyAs(nodeBinary(root, arch, 'darwin'), join(staged, 'lib/sluice/node'), 0o755);
  await bundleProgram(root, 'sluice', join(staged, 'lib/sluice/sluice.mjs'), true, { version });
}

/**
 * Writes sluice-cli-VERSION-SYSTEM-ARCH.tar.gz and returns its name.
 * @param tree the installed files of this architecture, as `layOut` made them
 */
export async function buildCliArchive(
  root: string,
  tree: string,
  { system, arch }: { readonly system: System; readonly arch: Arch },
  release: PackageRelease,
  target: string,
): Promise<string> {
  const name = `sluice-cli-${release.version}-${system}-${arch}`;
  const staged = join(dirname(tree), name);
  mkdirSync(staged);
  for (const [to, from] of Object.entries(files)) copyAs(join(tree, 'usr', from || to), join(staged, to), 0o644);
  for (const part of integrations)
    cpSync(join(root, 'integrations', part), join(staged, 'integrations', part), { recursive: true });
  if (system === 'linux') copyExecutable(tree, staged);
  else await copyNode(root, arch, staged, release.version);
  tar(staged, release.epoch, `${staged}.tar`);
  writeFileSync(join(target, `${name}.tar.gz`), withoutClock(gzipSync(readFileSync(`${staged}.tar`))));
  rmSync(staged, { recursive: true });
  rmSync(`${staged}.tar`);
  return `${name}.tar.gz`;
}
