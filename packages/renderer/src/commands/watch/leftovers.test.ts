import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { BundleRepository } from './repository.ts';

let dir: string;
let work: string;
let rendered: string;
let repository: BundleRepository;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-leftovers-'));
  work = join(dir, 'work');
  rendered = join(work, 'rendered');
  git(dir, 'init', '--quiet', '--bare', '--initial-branch=main', 'origin.git');
  git(dir, 'clone', '--quiet', join(dir, 'origin.git'), work);
  git(work, 'checkout', '--quiet', '-b', 'main');
  for (const key of ['name', 'email']) git(work, 'config', `user.${key}`, 'watch@example.com');
  mkdirSync(rendered);
  writeFileSync(join(rendered, 'file'), '1\n');
  git(work, 'add', '--all');
  git(work, 'commit', '--quiet', '--message', 'start');
  git(work, 'push', '--quiet', '--set-upstream', 'origin', 'main');
  repository = new BundleRepository(rendered);
});
afterEach(() => rmSync(dir, { recursive: true }));

function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd, encoding: 'utf8', stdio: 'pipe' }).trim();
}

const inGit = (name: string): string => join(work, '.git', name);

/** Runs Git in the clone until it calls the hook, and kills it there. */
function killAt(hook: string, ...args: readonly string[]): void {
  const path = inGit(join('hooks', hook));
  writeFileSync(path, '#!/bin/sh\nkill -9 $PPID\n', { mode: 0o755 });
  expect(spawnSync('git', args, { cwd: work }).signal).toBe('SIGKILL');
  rmSync(path);
}

/** Makes all locks as old as what an earlier process left. */
function ageLocks(): void {
  const then = new Date(Date.now() - 60_000);
  for (const name of readdirSync(inGit(''), { recursive: true, encoding: 'utf8' }))
    if (name.endsWith('.lock')) utimesSync(inGit(name), then, then);
}

/** Kills a rebase onto the remote branch before it has applied the commit of this clone. */
function killRebase(): void {
  git(dir, 'clone', '--quiet', join(dir, 'origin.git'), 'other');
  const other = join(dir, 'other');
  writeFileSync(join(other, 'README'), 'of another\n');
  git(other, 'add', 'README');
  git(other, '-c', 'user.name=o', '-c', 'user.email=o@example.com', 'commit', '--quiet', '--message', 'of another');
  git(other, 'push', '--quiet');
  writeFileSync(join(rendered, 'file'), '2\n');
  git(work, 'commit', '--quiet', '--all', '--message', 'not pushed');
  git(work, 'fetch', '--quiet');
  killAt('post-checkout', 'rebase', '--quiet', '@{upstream}');
  expect(existsSync(inGit('rebase-merge'))).toBe(true);
}

const nothing = { about: [], files: new Map() };

/** Expects the repository on its branch, with its commits, and ready for commits and pushes. */
async function expectSound(): Promise<void> {
  expect(git(work, 'symbolic-ref', 'HEAD')).toBe('refs/heads/main');
  expect(existsSync(inGit('rebase-merge'))).toBe(false);
  expect(await repository.missingPrerequisite(true)).toBe(undefined);
  writeFileSync(join(rendered, 'file'), '3\n');
  expect(await repository.record({ ...nothing, about: ['Service shop/a'] })).toBe('watch: Service shop/a');
  git(work, 'fetch', '--quiet');
  await repository.rebase(nothing);
  expect(await repository.push()).toBe(undefined);
  expect(git(work, 'status', '--porcelain')).toBe('');
}

test('removes the lock of a killed commit', async () => {
  writeFileSync(join(rendered, 'file'), '2\n');
  git(work, 'add', '--all');
  killAt('prepare-commit-msg', 'commit', '--no-verify', '--message', 'x', '--', 'rendered');
  await expect(repository.record(nothing)).rejects.toThrow(/index\.lock/);
  ageLocks();
  expect((await repository.repair()).join()).toContain('index.lock');
  expect(await repository.repair()).toEqual([]);
  await expectSound();
});

test('waits for a recent lock, which may belong to a running git', async () => {
  writeFileSync(inGit('index.lock'), '');
  setTimeout(() => rmSync(inGit('index.lock')), 200);
  expect(await repository.repair()).toEqual([]);
});

test.each(['HEAD.lock', 'refs/heads/main.lock', 'refs/remotes/origin/main.lock'])('removes %s', async (lock) => {
  writeFileSync(inGit(lock), '');
  ageLocks();
  expect((await repository.repair()).join()).toContain(lock);
  await expectSound();
});

test('aborts a killed rebase and keeps unpushed commits', async () => {
  killRebase();
  expect((await repository.missingPrerequisite(true))?.code).toBe('GIT_UNREADY');
  ageLocks();
  expect((await repository.repair()).join()).toContain('rebase');
  expect(git(work, 'log', '-1', '--format=%s')).toBe('not pushed');
  expect(readFileSync(join(rendered, 'file'), 'utf8')).toBe('2\n');
  await expectSound();
});

test('quits a rebase that cannot be aborted and checks out the branch', async () => {
  killRebase();
  writeFileSync(inGit('index.lock'), '');
  ageLocks();
  rmSync(inGit('rebase-merge/orig-head'));
  expect((await repository.repair()).join()).toContain('rebase');
  expect(git(work, 'log', '-1', '--format=%s')).toBe('not pushed');
  await expectSound();
});

test('does nothing in an intact repository and without a repository', async () => {
  expect(await repository.repair()).toEqual([]);
  expect(await new BundleRepository(dir).repair()).toEqual([]);
});

test('reports a detached HEAD', async () => {
  git(work, 'checkout', '--quiet', '--detach');
  expect(await repository.missingPrerequisite(true)).toMatchObject({
    code: 'GIT_UNREADY',
    message: expect.stringContaining('no branch is checked out'),
    hint: 'Check out the branch to push',
  });
});
