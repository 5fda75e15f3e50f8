import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { nodeFlags, nodePrograms } from '../../../tools/bundle.ts';
import { kubeProxy } from '../../parity/binaries.ts';
import { copyAsInstalled } from '../as-installed.ts';
import { buildHere } from '../executables.ts';

/** Paths of the programs: Sluice's as the image of a node has them, executables that need no Node. */
export interface BenchPrograms {
  readonly sluice: string;
  readonly sluiced: string;
  readonly kubeProxy: string;
}

/**
 * Builds the programs, and writes them as an installation does.
 * @param root the checkout
 * @param dir empty
 * @returns what is missing, where they cannot be built
 */
export async function preparePrograms(root: string, dir: string): Promise<BenchPrograms | { readonly lack: string }> {
  if (process.getuid?.() !== 0) return { lack: 'it needs root' };
  const kube = await kubeProxy();
  if ('lack' in kube) return kube;
  const lack = await buildHere(root, dir, nodePrograms, nodeFlags);
  if (lack !== undefined) return { lack };
  const install = (from: string, name: string): string => copyAsInstalled(from, join(dir, name));
  const [sluice, sluiced] = [install(join(dir, 'bin/sluice'), 'sluice'), join(dir, 'sluiced')];
  // One file with two names, as in packages: both programs share its pages.
  symlinkSync(sluice, sluiced);
  return { sluice, sluiced, kubeProxy: install(kube.path, 'kube-proxy') };
}
