import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';

/** nft of another Debian, for tests: unpacked beside the machine's own, with the libraries that it was built for. */
const suite = 'trixie';
const cache = join(import.meta.dirname, '..', '..', '.cache', `nft-${suite}`);
const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** The path of a newer nft, or why there is none. */
export type NewerNft = { readonly path: string } | { readonly lack: string };

/**
 * Finds or fetches nft 1.1.3 of Debian 13. It stays in `.cache`.
 * @returns a program that runs like `nft`
 */
export function newerNft(): NewerNft {
  const path = join(cache, 'nft');
  if (existsSync(path)) return { path };
  if (process.arch !== 'x64') return { lack: `nft of Debian ${suite} is fetched for x64 alone` };
  const mirror = mirrorOf();
  if (mirror === undefined || !existsSync(keyring))
    return { lack: 'apt has no source of Debian packages, or no keyring' };
  const work = `${cache}-${process.pid}`;
  try {
    fetchPackages(work, mirror);
    const root = join(work, 'root');
    for (const name of readdirSync(join(work, 'archives')).filter((one) => one.endsWith('.deb')))
      execaSync('dpkg-deb', ['-x', join(work, 'archives', name), root]);
    const inCache = join(cache, 'root');
    const libraries = `${inCache}/usr/lib/x86_64-linux-gnu`;
    const script = `#!/bin/sh\nexec ${libraries}/ld-linux-x86-64.so.2 --library-path ${libraries} ${inCache}/usr/sbin/nft "$@"\n`;
    writeFileSync(join(work, 'nft'), script);
    chmodSync(join(work, 'nft'), 0o755);
    // Another process may have made it meanwhile.
    if (!existsSync(cache)) renameSync(work, cache);
    return { path };
  } catch (error) {
    const why = error instanceof Error ? error.message.split('\n', 1)[0] : String(error);
    return { lack: `nft of Debian ${suite} cannot be fetched: ${why}` };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Downloads the package and all that it needs, without touching the machine's own lists of packages. */
function fetchPackages(work: string, mirror: string): void {
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
  const wanted = ['--yes', '--download-only', '--no-install-recommends', 'install', 'nftables', 'libc6'];
  execaSync('apt-get', [...options, ...wanted]);
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
