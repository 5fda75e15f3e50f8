import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isShare } from '@sluice/testing';
import type { TestContext } from 'vitest';
import { pinnedIn } from '../parity/binaries.ts';
import { build, cacheFolder, type GoProgram, pathOf } from '../parity/build.ts';
import { needModule } from './resource-schemas.ts';

/** Flux, built from Go modules: 25 minutes on a machine with other work, so that tier all alone builds what is missing. */

const module = join(import.meta.dirname, 'gitops');

/** A controller by its name, which is that of its module; skips the test by name where it cannot be built. */
export const needController = (context: TestContext, name: `${'source' | 'kustomize'}-controller`): Promise<string> => {
  const root = `github.com/fluxcd/${name}`;
  return needBuilt(context, { name, module, package: root, version: pinnedIn(module, root) });
};

/** The command `flux`; skips the test as above. */
export async function needFlux(context: TestContext): Promise<string> {
  const folder = join(cacheFolder, 'flux-source-v2.7.5');
  if (!existsSync(folder)) copyModule(needModule(context, 'Flux’ command'), folder);
  const variables = { 'main.VERSION': '2.7.5' };
  return needBuilt(context, { name: 'flux', module: folder, package: './cmd/flux', version: 'v2.7.5', variables });
}

async function needBuilt(context: TestContext, program: GoProgram): Promise<string> {
  if (isShare && !existsSync(pathOf(program))) context.skip(`${program.name} is built by ./dev test --all`);
  const built = await build(program);
  if ('lack' in built) context.skip(built.lack);
  return built.path;
}

/** The module lacks the manifests that `flux install` has in itself, and does not compile without any. */
function copyModule(from: string, folder: string): void {
  const work = `${folder}-${process.pid}`;
  mkdirSync(cacheFolder, { recursive: true });
  execFileSync('cp', ['-r', '--no-preserve=mode', from, work]);
  mkdirSync(join(work, 'cmd/flux/manifests'));
  writeFileSync(join(work, 'cmd/flux/manifests/none.yaml'), '');
  if (!existsSync(folder)) renameSync(work, folder);
}
