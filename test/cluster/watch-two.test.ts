// @module-tag test
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { quarantineFile, serviceFile } from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type ApiObject, token } from './apiserver.fixture.ts';
import { LeaseServer } from './lease.fixture.ts';
import { LiveCluster } from './live.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';
import { type Started, startSluice, until } from './program.fixture.ts';

let cluster: LiveCluster;
let dir: string;
const running: Started[] = [];

beforeEach(async () => {
  cluster = await LiveCluster.start();
  const leases = new LeaseServer();
  cluster.server.intercept = (path, request, response) =>
    leases.answer(path, request, response) || cluster.answer(path, request, response);
  dir = mkdtempSync(join(tmpdir(), 'sluice-watch-two-'));
  cluster.put('services', serviceOf('a', 1));
  cluster.put('endpointslices', slice);
  cluster.put('nodes', node);
});
afterEach(async () => {
  for (const started of running) started.kill('SIGTERM');
  await Promise.all(running.splice(0));
  await cluster.server.close();
  rmSync(dir, { recursive: true });
});

function git(cwd: string, ...args: readonly string[]): string {
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.com'];
  return execFileSync('git', [...who, ...args], { cwd, encoding: 'utf8', stdio: 'pipe' });
}

/** A clone of the one repository. */
function clone(name: string): string {
  const work = join(dir, name);
  git(dir, 'clone', '--quiet', join(dir, 'origin.git'), work);
  git(work, 'config', 'user.name', name);
  git(work, 'config', 'user.email', `${name}@example.com`);
  return work;
}

function makeOrigin(): void {
  git(dir, 'init', '--quiet', '--bare', '--initial-branch=main', 'origin.git');
  const first = clone('first');
  writeFileSync(join(first, 'README'), 'rules\n');
  git(first, 'checkout', '--quiet', '-b', 'main');
  git(first, 'add', 'README');
  git(first, 'commit', '--quiet', '--message', 'start');
  git(first, 'push', '--quiet', '--set-upstream', 'origin', 'main');
}

/** Starts a watcher in a clone, and collects its output. */
function watchIn(work: string): { readonly started: Started; readonly text: () => string } {
  const kubeconfig = cluster.server.kubeconfig({ token });
  const where = ['-o', join(work, 'rendered'), '--kubeconfig', kubeconfig];
  const started = startSluice(['watch', ...where, '--lease', 'kube-system/sluice', '--commit', '--push'], dir);
  running.push(started);
  let text = '';
  started.all?.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
  return { started, text: () => text };
}

const fileOf = (name: string): string => join('rendered', serviceFile('default', 'shop', name, 'iptables'));
/** A file as pushed; empty while it does not exist. */
function pushed(path: string): string {
  try {
    return git(join(dir, 'origin.git'), 'show', `main:${path}`);
  } catch {
    return '';
  }
}
const bad = (service: ApiObject): ApiObject => ({
  ...service,
  spec: { ...(service['spec'] as ApiObject), sessionAffinity: 'Maybe' },
});

test('one of two watchers writes; the other one continues from its pushes, and on top of commits by users', async () => {
  makeOrigin();
  const [one, two] = [clone('one'), clone('two')];
  const first = watchIn(one);
  await until(() => first.text().includes('holds Lease') && pushed(fileOf('a')) !== '');
  const second = watchIn(two);
  cluster.put('services', serviceOf('b', 3));
  await until(() => pushed(fileOf('b')).includes('10.96.0.3'));
  cluster.put('services', bad(serviceOf('b', 4)));
  await until(() => pushed(join('rendered', quarantineFile)).includes('Service shop/b'));
  expect(second.text()).not.toContain('holds Lease');
  expect(existsSync(join(two, fileOf('a')))).toBe(false);

  first.started.kill('SIGTERM');
  expect(await first.started).toMatchObject({ exitCode: 0 });
  cluster.put('services', serviceOf('c', 5));
  await until(() => pushed(fileOf('c')) !== '');
  expect(second.text()).toContain('holds Lease');
  // The second one never saw a valid version of this Service.
  expect(pushed(fileOf('b'))).toContain('10.96.0.3');
  expect(pushed(join('rendered', quarantineFile))).toContain('rules: last good');
  expect(git(join(dir, 'origin.git'), 'log', '--patch', 'main')).not.toContain('rules: none');

  const good = pushed(fileOf('a'));
  const person = clone('person');
  writeFileSync(join(person, fileOf('a')), 'by hand\n');
  git(person, 'commit', '--quiet', '--all', '--message', 'by hand');
  git(person, 'push', '--quiet');
  cluster.put('services', serviceOf('d', 6));
  await until(() => pushed(fileOf('d')) !== '');
  // The push adds one file, and restores the other one.
  expect(pushed(fileOf('a'))).toBe(good);
  expect(readFileSync(join(two, fileOf('a')), 'utf8')).toBe(good);
  await until(() => git(two, 'status', '--porcelain') === '');
}, 90_000);
