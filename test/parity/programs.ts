import { beforeAll, beforeEach } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { kubeProxy, type Minor, newest, wireProgram } from './binaries.ts';
import type { Built } from './build.ts';

/** Programs that are built. */
export interface Programs {
  /** The version of kube-proxy, which Sluice is told to follow. */
  readonly minor: Minor;
  readonly kubeProxy: string;
  readonly wire: string;
}

/**
 * For the tests of this file or group: builds what they run, and skips them with the reason where that cannot be built, or the machine
 * lacks what they need.
 * @returns the programs, once a test runs
 */
export function needPrograms(minor: Minor = newest): () => Programs {
  let built: Readonly<Record<'kubeProxy' | 'wire', Built>>;
  beforeAll(async () => {
    built = { kubeProxy: await kubeProxy(minor), wire: await wireProgram() };
  }, 3_600_000);
  beforeEach((context) => {
    needKernel(context);
    needBackend(context, 'nft');
    for (const one of Object.values(built)) if ('lack' in one) context.skip(one.lack);
  });
  return () => ({ minor, kubeProxy: pathOf(built.kubeProxy), wire: pathOf(built.wire) });
}

function pathOf(built: Built): string {
  if ('lack' in built) throw new Error(built.lack);
  return built.path;
}
