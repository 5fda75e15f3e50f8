import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { completeFile } from '@sluice/bundle';
import { afterEach, beforeEach } from 'vitest';
import { token } from './apiserver.fixture.ts';
import { LiveCluster } from './live.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';
import { freePort, type Started, startSluice } from './program.fixture.ts';

/** What each test of `sluice watch` has, from the hooks of `watchedCluster`. */
export let cluster: LiveCluster;
export let dir: string;
/** The bundle of the program, below `dir`. */
export let out: string;
/** For `--listen`. */
export let port: number;
/** The program, after `startWatch`. */
export let watching: Started | undefined;

/** Sets the hooks of a file of tests. @param fill gives the cluster its Services */
export function watchedCluster(fill = oneService): void {
  beforeEach(async () => {
    cluster = await LiveCluster.start();
    dir = mkdtempSync(join(tmpdir(), 'sluice-watch-'));
    out = join(dir, 'rendered');
    port = await freePort();
    fill();
    cluster.put('nodes', node);
  });
  afterEach(async () => {
    await endWatch();
    await cluster.server.close();
    rmSync(dir, { recursive: true });
  });
}

function oneService(): void {
  cluster.put('services', serviceOf('a', 1));
  cluster.put('endpointslices', slice);
}

export const kubeconfig = (): string => cluster.server.kubeconfig({ token });

/** Starts `sluice watch`; it ends with the test at the latest. */
export function startWatch(...options: readonly string[]): Started {
  watching = startSluice(['watch', '--kubeconfig', kubeconfig(), ...options], dir);
  return watching;
}

/** Moves `out` to another folder. */
export function writeBelow(folder: string): void {
  out = join(folder, 'rendered');
}

export async function endWatch(): Promise<void> {
  watching?.kill('SIGTERM');
  await watching;
  watching = undefined;
}

export const isThere = (bundle = out): boolean => existsSync(join(bundle, completeFile));

/** What the program answers at `port`. */
export async function ask(path: string): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, text: await response.text() };
}
