import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fetchPackages, suite } from '../../tools/package/images/fetch.ts';
import { cacheFolder } from '../parity/build.ts';

/** A directory with the files of packages, or why there is none. */
export type DebianRoot = { readonly root: string } | { readonly lack: string };

/**
 * Finds or fetches packages of Debian 13 for tests, and all that they need, without touching the machine's own lists of packages. They
 * stay in the cache of tests, unpacked and not configured.
 * @param name of the directory
 */
export function debianRoot(name: string, packages: readonly string[]): DebianRoot {
  const cache = join(cacheFolder, `${name}-${suite}`);
  const root = join(cache, 'root');
  if (existsSync(root)) return { root };
  if (process.arch !== 'x64') return { lack: `${name} of Debian ${suite} is fetched for x64 alone` };
  const work = `${cache}-${process.pid}`;
  try {
    mkdirSync(join(work, 'apt'), { recursive: true });
    for (const { file } of fetchPackages('amd64', packages, join(work, 'apt')))
      execFileSync('dpkg-deb', ['-x', file, join(work, 'root')]);
    rmSync(join(work, 'apt'), { recursive: true });
    // Another process may have made it meanwhile.
    if (!existsSync(cache)) renameSync(work, cache);
    return { root };
  } catch (error) {
    const why = error instanceof Error ? error.message.split('\n', 1)[0] : String(error);
    return { lack: `${name} of Debian ${suite} cannot be fetched: ${why}` };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
