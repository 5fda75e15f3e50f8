import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isShare } from '@sluice/testing';
import { execa } from 'execa';
import type { Host } from '../../netns/cluster-host.ts';
import { cacheFolder } from '../../parity/build.ts';

const root = join(import.meta.dirname, '../../..');
const version = '0.2.0';

/** A folder with the files of a release, or the reason why they cannot be made here. */
export type Packages = { readonly folder: string } | { readonly lack: string };

let built: Promise<Packages> | undefined;

/** What `./dev package` makes of this checkout, or the folder that `SLUICE_PACKAGES` names. */
export const packages = (): Promise<Packages> => (built ??= packagesOfCheckout());

async function packagesOfCheckout(): Promise<Packages> {
  const given = process.env['SLUICE_PACKAGES'];
  if (given !== undefined) return { folder: given };
  const folder = mkdtempSync(join(tmpdir(), 'sluice-packages-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  return make(root, join(folder, 'release'), ['--no-cli'], { SLUICE_VERSION: version });
}

async function make(
  checkout: string,
  folder: string,
  options: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Packages> {
  const argv = [join(checkout, 'tools/package.ts'), '-o', folder, '--arch', 'x64', ...options];
  const { failed, stderr } = await execa(join(checkout, 'node_modules/.bin/node'), argv, { env, reject: false });
  if (!failed) return { folder };
  return { lack: stderr.split('\n').find((line) => line.startsWith('package: ')) ?? stderr.slice(-300) };
}

/** No tag names them: each is the last commit before CHANGELOG.md began what came after that version. */
const commits = { '0.1.0': '6f16b0f9b0e7c291fabe9ea00e972452e3931139' } as const;

/** The packages of an earlier version, from the cache, or built there from its commit: two minutes. CI's share builds none. */
export async function earlierPackages(earlier: keyof typeof commits): Promise<Packages> {
  const commit = commits[earlier];
  const folder = join(cacheFolder, `sluice-${earlier}-${commit.slice(0, 12)}`);
  if (existsSync(folder)) return { folder };
  if (isShare) return { lack: `packages of ${earlier} are not built; ./dev test --all builds them` };
  const git = ['-C', root];
  const { failed, stdout: epoch } = await execa('git', [...git, 'show', '-s', '--format=%ct', commit], {
    reject: false,
  });
  if (failed) return { lack: `the history of this clone has no commit ${commit.slice(0, 12)} of ${earlier}` };
  const work = `${folder}-${process.pid}.part`;
  const checkout = join(work, 'checkout');
  mkdirSync(checkout, { recursive: true });
  try {
    await execa('sh', ['-ec', 'git -C "$0" archive "$1" | tar -xC "$2"', root, commit, checkout]);
    const setUp = await execa('sh', ['-ec', '. tools/setup.sh; install_packages; check_node'], {
      cwd: checkout,
      reject: false,
    });
    if (setUp.failed) return { lack: `packages of ${earlier}: ${setUp.stderr.slice(-300)}` };
    const made = await make(checkout, join(work, 'release'), [], { SOURCE_DATE_EPOCH: epoch.trim() });
    if ('lack' in made) return made;
    // Another process may have made it meanwhile.
    if (!existsSync(folder)) renameSync(made.folder, folder);
    return { folder };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The path of the file of a release whose name has this beginning and end. @throws Error where there is none */
export function fileOf(folder: string, start: string, ending: string): string {
  const name = readdirSync(folder).find((one) => one.startsWith(start) && one.endsWith(ending));
  if (name === undefined) throw new Error(`${folder} has no file ${start}…${ending}`);
  return join(folder, name);
}

/** Installs a Debian package on a node, into its own layers over those of the machine. Nothing is restarted: the node has no systemd. */
export async function install(host: Host, archive: string): Promise<void> {
  const env = ['env', 'DEBIAN_FRONTEND=noninteractive', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin'];
  await host.run([...env, 'dpkg', '--install', archive], { timeoutMs: 180_000 });
}
