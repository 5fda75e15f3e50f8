import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isShare, reaches } from '@sluice/testing';
import { beforeAll, beforeEach } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { openRealCluster, type RealCluster } from './cluster.ts';
import { lackOfGroups } from './machine.ts';
import { buildPrograms, type Programs } from './programs.ts';
import { slugOf } from './runs.ts';
import type { System } from './systems.ts';

/** Opens a cluster with a system, and ends it after its use. Logs of its programs stay in `dist/conformance`. @param name of their folder */
export type WithCluster = (
  system: System,
  use: (cluster: RealCluster, folder: string) => Promise<void>,
  name?: string,
) => Promise<void>;

/** For a file of tests: builds what a cluster needs once, and skips the tests by name where something is missing. */
export function useRig(): WithCluster {
  let built: Programs | { readonly lack: string };
  beforeAll(async () => {
    // A build takes longer than CI's share, which has what is built already.
    built = await buildPrograms(reaches('all') && !isShare);
  }, 3_600_000);
  beforeEach((context) => {
    needKernel(context);
    const lack = lackOfGroups() ?? ('lack' in built ? built.lack : undefined);
    if (lack !== undefined) context.skip(lack);
  });
  return async (system, use, name = system.title) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-conformance-'));
    try {
      await using cluster = await openRealCluster(built as Programs, system, folder);
      await use(cluster, folder);
    } finally {
      keepLogs(folder, join(import.meta.dirname, '../../dist/conformance', slugOf(name)));
      rmSync(folder, { recursive: true, force: true });
    }
  };
}

/** Logs, and JUnit, for who looks for the reason of a failure. */
function keepLogs(folder: string, kept: string): void {
  rmSync(kept, { recursive: true, force: true });
  mkdirSync(kept, { recursive: true });
  const logs = readdirSync(folder, { encoding: 'utf8', recursive: true }).filter(
    (path) => /^(?:[\w-]+\/)?[\w-]+\.(?:log|xml)$/.test(path) && statSync(join(folder, path)).isFile(),
  );
  for (const path of logs) copyFileSync(join(folder, path), join(kept, path.replace('/', '-')));
}
