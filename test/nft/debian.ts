import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';

/** Programs of Debian 13, for tests: unpacked beside the machine's own, with everything that they need. */
const suite = 'trixie';
const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** A directory with the files of packages, or why there is none. */
export type DebianRoot = { readonly root: string } | { readonly lack: string };

/**
 * Finds or fetches packages of Debian 13 and all that they need, without touching the machine's own lists of packages. They stay in
 * `.cache`, unpacked and not configured.
 * @param name of the directory
 */
export function debianRoot(name: string, packages: readonly string[]): DebianRoot {
  const cache = join(import.meta.dirname, '..', '..', '.cache', `${name}-${suite}`);
  const root = join(cache, 'root');
  if (existsSync(root)) return { root };
  if (process.arch !== 'x64') return { lack: `${name} of Debian ${suite} is fetched for x64 alone` };
  const mirror = mirrorOf();
  if (mirror === undefined || !existsSync(keyring))
    return { lack: 'apt has no source of Debian packages, or no keyring' };
  const work = `${cache}-${process.pid}`;
  try {
    fetchPackages(work, mirror, packages);
    for (const file of readdirSync(join(work, 'archives')).filter((one) => one.endsWith('.deb')))
      execaSync('dpkg-deb', ['-x', join(work, 'archives', file), join(work, 'root')]);
    rmSync(join(work, 'archives'), { recursive: true });
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

function fetchPackages(work: string, mirror: string, packages: readonly string[]): void {
  for (const folder of ['lists/partial', 'archives/partial', 'sources'])
    mkdirSync(join(work, folder), { recursive: true });
  writeFileSync(join(work, 'status'), '');
  const source = ['Types: deb', `URIs: ${mirror}`, `Suites: ${suite}`, 'Components: main', `Signed-By: ${keyring}`];
  writeFileSync(join(work, 'sources', 'debian.sources'), `${source.join('\n')}\n`);
  const settings = {
    'Dir::State': work,
    'Dir::State::lists': join(work, 'lists'),
    'Dir::State::status': join(work, 'status'),
    'Dir::Cache::archives': join(work, 'archives'),
    'Dir::Cache::pkgcache': '',
    'Dir::Cache::srcpkgcache': '',
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': join(work, 'sources'),
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  execaSync('apt-get', [...options, 'update']);
  const how = ['--yes', '--download-only', '--no-install-recommends', 'install'];
  execaSync('apt-get', [...options, ...how, ...packages]);
}

/** The first source of the machine's apt. */
function mirrorOf(): string | undefined {
  const folder = '/etc/apt/sources.list.d';
  const files = existsSync(folder)
    ? readdirSync(folder)
        .toSorted()
        .map((name) => join(folder, name))
    : [];
  const texts = ['/etc/apt/sources.list', ...files]
    .filter((file) => existsSync(file))
    .map((file) => readFileSync(file, 'utf8'));
  for (const text of texts) {
    const found = /^URIs: (\S+)|^deb (?:\[[^\]]*\] )?(https?:\S+)/m.exec(text);
    if (found) return found[1] ?? found[2];
  }
  return undefined;
}
