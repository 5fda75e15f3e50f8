/** `sluice` as a package of npm, for pipelines that have Node. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { bundleProgram, oldestNode } from '../bundle.ts';
import { tar } from './archive.ts';
import type { PackageRelease } from './deb.ts';
import { copyAs, withoutClock } from './tree.ts';

/**
 * Writes sluice-cli-VERSION.tgz and returns its name. It has no dependencies: everything is in its one file.
 * @param licences the texts of third-party software inside it
 * @param work a folder that does not exist
 */
export async function buildNpmPackage(
  root: string,
  licences: string,
  work: string,
  release: PackageRelease,
  target: string,
): Promise<string> {
  const folder = join(work, 'package');
  mkdirSync(folder, { recursive: true });
  await bundleProgram(root, 'sluice', join(folder, 'sluice.mjs'), true, { version: release.version });
  for (const name of ['LICENSE', 'README.md']) copyAs(join(root, name), join(folder, name), 0o644);
  writeFileSync(join(folder, 'THIRD-PARTY-LICENSES'), licences);
  const description = {
    name: '@sluice/cli',
    version: release.version,
    description: 'Renders Kubernetes Services into versioned rule bundles, one per node',
    license: 'Apache-2.0',
    type: 'module',
    bin: { sluice: 'sluice.mjs' },
    engines: { node: `>=${oldestNode}` },
  };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(description, undefined, 2)}\n`);
  const name = `sluice-cli-${release.version}.tgz`;
  tar(folder, release.epoch, join(work, 'package.tar'));
  writeFileSync(join(target, name), withoutClock(gzipSync(readFileSync(join(work, 'package.tar')))));
  rmSync(work, { recursive: true });
  return name;
}
