// @module-tag test
import { execFileSync } from 'node:child_process';
import { utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { send } from './apiserver.fixture.ts';
import { serviceOf } from './objects.fixture.ts';
import { outputOf, freePort, type Started, until } from './program.fixture.ts';
import { cluster, dir, isThere, out, startWatch, watchedCluster } from './watched.fixture.ts';

watchedCluster();
const watch = (...more: readonly string[]): Started => startWatch('-o', out, ...more);

describe('an error that the operator can fix ends it at once:', () => {
  test.each<[string, () => readonly string[], RegExp]>([
    [
      'a directory with other content',
      () => {
        writeFileSync(join(dir, 'letters.txt'), 'dear');
        return ['-o', dir];
      },
      /letters\.txt.*\[OUTPUT_NOT_A_BUNDLE\]/,
    ],
    ['a directory that cannot be created', () => ['-o', '/proc/nowhere'], /\[OUTPUT_UNWRITABLE\]/],
    ['commits outside of a repository', () => ['--commit'], /not in a Git work tree \[GIT_UNREADY\]/],
    ['pushes outside of a repository', () => ['--push'], /not in a Git work tree \[GIT_UNREADY\]/],
    ['an invalid port', () => ['--listen', '127.0.0.1:99999'], /option '--listen <ADDRESS:PORT>'/],
  ])('%s', { timeout: 30_000 }, async (_title, options, message) => {
    const { exitCode, all } = await watch(...options());
    expect(all).toMatch(message);
    expect(exitCode).toBe(2);
  });

  test('a port in use', { timeout: 30_000 }, async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    expect(await watch('--listen', `127.0.0.1:${port}`)).toMatchObject({
      exitCode: 2,
      all: expect.stringMatching(/address already in use .*\[LISTEN_FAILED\]/),
    });
    await new Promise((resolve) => other.close(resolve));
  });
});

test('waits with an alarm for a cluster that is unreachable at the start', { timeout: 60_000 }, async () => {
  cluster.server.intercept = (_path, request) => (request.socket.destroy(), true);
  const port = await freePort();
  const text = outputOf(watch('--listen', `127.0.0.1:${port}`));
  await until(() => text().includes('warning: API configmaps: Cannot read https://'), 40_000);
  const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  expect(metrics).toContain('\nsluice_watch_api_away 1\n');
  expect(isThere()).toBe(false);
  cluster.server.intercept = (path, request, response) => cluster.answer(path, request, response);
  await until(isThere, 40_000);
  await until(() => text().includes('rendered is up to date with https://'));
});

test('starts in a repository with the lock of a killed git', {
  timeout: 30_000,
}, async () => {
  const git = (...args: readonly string[]): string => execFileSync('git', args, { cwd: dir, encoding: 'utf8' });
  git('init', '--quiet', '--initial-branch=main');
  for (const key of ['name', 'email']) git('config', `user.${key}`, 'watch@example.com');
  const lock = join(dir, '.git', 'index.lock');
  writeFileSync(lock, '');
  utimesSync(lock, new Date(0), new Date(0));
  const text = outputOf(watch('--commit'));
  await until(() => text().includes('committed: sluice: initial render of 1 Service for 1 node\n'));
  expect(text()).toContain(`removed ${lock} of a killed git`);
  expect(text()).not.toContain('warning: COMMIT');
  expect(git('ls-tree', '-r', '--name-only', 'HEAD')).toContain('rendered/');
});

test('writes its log as JSON when configured, with the level that signals change', { timeout: 30_000 }, async () => {
  const started = watch('--log-format', 'json', '--log-level', 'warning');
  let log = '';
  started.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const entries = (): readonly { readonly level: string; readonly msg: string }[] =>
    log
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as { level: string; msg: string });
  const hasLogged = (message: string): boolean => entries().some(({ msg }) => msg === message);
  await until(isThere);
  expect(entries().filter(({ level }) => level === 'info')).toEqual([]);
  started.kill('SIGUSR1');
  await until(() => hasLogged('log level is info'));
  started.kill('SIGUSR1');
  await until(() => hasLogged('log level is debug'));
  cluster.put('services', serviceOf('b', 2));
  await until(() => hasLogged('published'));
  started.kill('SIGUSR2');
  await until(() => entries().filter(({ msg }) => msg === 'log level is info').length === 2);
  for (const entry of entries())
    expect(entry).toMatchObject({
      time: expect.stringMatching(/^\d{4}-\S+Z$/) as string,
      level: expect.any(String) as string,
    });
});

test('ends at a signal while a server accepts requests and never answers', { timeout: 25_000 }, async () => {
  let isAsked = false;
  cluster.server.intercept = (path, request, response) => {
    if (!path.includes('/services')) return cluster.answer(path, request, response);
    isAsked = true;
    return true;
  };
  const started = watch();
  await until(() => isAsked);
  started.kill('SIGTERM');
  // Requests time out after 30 seconds, five times.
  expect(await started).toMatchObject({ exitCode: 0 });
});

test.each<[string, (path: string) => boolean]>([
  ['to list', (path) => path.includes('/nodes')],
  ['to watch', (path) => path.includes('/nodes?watch=1')],
])('names a missing right %s with the rule that grants it', { timeout: 30_000 }, async (_title, isRefused) => {
  cluster.server.intercept = (path, request, response) => {
    if (!isRefused(path)) return cluster.answer(path, request, response);
    send(response, 403, {});
    return true;
  };
  const text = outputOf(watch());
  await until(() => text().includes('permission denied'));
  expect(text()).toMatch(/Cannot (list|watch) nodes of https:/);
  expect(text()).toContain('Grant this RBAC rule: {apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch"]}');
});
