import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { isProblem, readRelease } from '@sluice/bundle';
import { writeLayout as write } from '../../packages/renderer/src/emit/layout.ts';
import { packRelease } from '../../packages/transport/src/content/pack.ts';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { pushRelease } from '../../packages/transport/src/content/push.ts';
import { readReference } from '../../packages/transport/src/registry/reference.ts';

/** How releases get to where servers have them. */

/** Writes a release as an OCI image layout. */
export function writeLayout(dir: string, release: string, tag: string): void {
  const files = filesIn(release);
  const written = write(dir, tag, packRelease(releaseIn(files), files));
  if (isProblem(written)) throw new Error(written.message);
}

/** Pushes a release to a registry without TLS. @returns the digest */
export async function pushTo(reference: string, release: string, tag: string): Promise<string> {
  const files = filesIn(release);
  const client = new RegistryClient(readReference(reference) as never, { env: {}, credentials: () => undefined });
  const { digest } = await pushRelease(client, releaseIn(files), files, tag);
  client.close();
  return digest;
}

function filesIn(dir: string): ReadonlyMap<string, string> {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const paths = entries.map((one) => join(one.parentPath, one.name));
  return new Map(paths.map((path) => [path.slice(dir.length + 1), readFileSync(path, 'utf8')]));
}

function releaseIn(files: ReadonlyMap<string, string>): Exclude<ReturnType<typeof readRelease>, { code: unknown }> {
  const release = readRelease(files.get('release.yaml') ?? '');
  if (isProblem(release)) throw new Error(release.message);
  return release;
}

const git = (dir: string, ...args: readonly string[]): string =>
  execFileSync('/usr/bin/git', ['-C', dir, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });

/** Commits a release to a repository that is served. @param path the folder of the release in it */
export function commitTo(repository: string, release: string, path: string): void {
  if (!existsSync(repository)) {
    mkdirSync(repository, { recursive: true });
    git(repository, 'init', '-q', '-b', 'main');
    git(repository, 'config', 'http.receivepack', 'true');
  }
  rmSync(join(repository, path), { recursive: true, force: true });
  cpSync(release, join(repository, path), { recursive: true });
  git(repository, 'add', '-A');
  git(repository, 'commit', '-q', '-m', 'release');
}
