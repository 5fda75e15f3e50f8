import { beforeAll, beforeEach } from 'vitest';
import { guestStore } from '../in-guest.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { kubeProxy, type Minor, newest, wireProgram } from './binaries.ts';
import type { Built } from './build.ts';

/** Built programs. */
export interface ParityPrograms {
  /** The version of kube-proxy, which Sluice is configured to follow. */
  readonly minor: Minor;
  readonly kubeProxy: string;
  readonly wire: string;
}

/**
 * For the tests of this file or group: builds the programs, and skips the tests with the reason where that is impossible, or the machine
 * lacks a requirement.
 * @returns the programs, within a test
 * @param hasKubeProxy false: `kubeProxy` is `''`, and nothing takes minutes to build
 */
export function needPrograms(minor: Minor = newest, hasKubeProxy = true): () => ParityPrograms {
  let built: Readonly<Record<'kubeProxy' | 'wire', Built>>;
  beforeAll(async () => {
    built = { kubeProxy: hasKubeProxy ? await kubeProxy(minor) : { path: '' }, wire: await wireProgram() };
  }, 3_600_000);
  beforeEach((context) => {
    needKernel(context);
    needBackend(context, guestStore);
    for (const one of Object.values(built)) if ('lack' in one) context.skip(one.lack);
  });
  return () => ({ minor, kubeProxy: pathOf(built.kubeProxy), wire: pathOf(built.wire) });
}

function pathOf(built: Built): string {
  if ('lack' in built) throw new Error(built.lack);
  return built.path;
}
