import { mkdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  git,
  limits,
  log,
  loop,
  pause,
  pushed,
  repository,
  startLoop,
  type TestLoop,
  until,
  withRepository,
} from './loop.fixture.ts';
import { BundleRepository } from './repository.ts';

const fileA = 'profiles/default/services/shop/a.iptables';
const fileB = 'profiles/default/services/shop/b.iptables';
const first = 'sluice: initial render of 1 Service for 0 nodes';

withRepository();

/** Starts a loop, which publishes one file. */
async function commits(isPushing: boolean, text = '1\n', settleMs?: number): Promise<TestLoop> {
  return startLoop(repository.rendered, isPushing, new Map([[fileA, text]]), settleMs);
}

const unplug = (): void => renameSync(repository.origin, `${repository.origin}.away`);
const plugIn = (): void => renameSync(`${repository.origin}.away`, repository.origin);

test('pushes the commit when the remote returns after all push attempts failed', async () => {
  unplug();
  const { alarms } = await commits(true);
  await until(() => alarms.length >= 2);
  expect(alarms[0]).toMatch(/Cannot push .*origin\.git/s);
  expect(log()).toEqual([first, 'start']);
  plugIn();
  await until(() => pushed().length === 2 && loop.isClear);
});

test('the first commit message counts Services, later ones name changes, also from another process', async () => {
  const committed = (count: number): Promise<void> =>
    until(() => loop.output.split('committed: ').length === count + 1);
  await commits(false);
  await committed(1);
  await loop.publish(new Map([[fileA, '2\n']]));
  await committed(2);
  await loop.finish();
  await commits(false, '3\n');
  await committed(1);
  expect(log()).toEqual(['watch: Service shop/a', 'watch: Service shop/a', first, 'start']);
});

test('a rebase onto a branch that has nothing more leaves the commits, and what is written after them', async () => {
  await commits(false);
  await until(() => log().length === 2);
  const before = git(repository.work, 'rev-parse', 'HEAD');
  writeFileSync(join(repository.rendered, fileA), 'of the next publication\n');
  await new BundleRepository(repository.rendered).rebase({ about: ['Service shop/b'], files: new Map() });
  const after = git(repository.work, 'rev-parse', 'HEAD');
  expect([after, git(repository.work, 'status', '--porcelain')]).toEqual([before, `M rendered/${fileA}`]);
});

test('commits during changes that never settle', async () => {
  await commits(false);
  // Git fails when a file changes while it is added, so nothing is written during a commit.
  const busy = setInterval(() => void loop.publish(new Map([[fileA, `${Date.now()}\n`]])), limits.settleMs / 2);
  await until(() => log().length >= 3);
  clearInterval(busy);
  expect(loop.alarms).toEqual([]);
});

test('retries a failed commit without a new change', async () => {
  const hook = join(repository.work, '.git', 'hooks', 'prepare-commit-msg');
  writeFileSync(hook, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  const { alarms } = await commits(false);
  await until(() => alarms.length > 0);
  rmSync(hook);
  await until(() => log().length === 2 && loop.isClear);
  expect(loop.output).toContain(`committed: ${first}`);
});

/** The lock of a killed git. */
function lockIndex(): void {
  const lock = join(repository.work, '.git', 'index.lock');
  writeFileSync(lock, '');
  utimesSync(lock, new Date(0), new Date(0));
}

test('removes the lock of a killed git before the next attempt', async () => {
  await commits(true);
  await until(() => pushed().length === 2);
  lockIndex();
  await loop.publish(new Map([[fileA, '2\n']]));
  await until(() => loop.output.includes('removed'));
  expect(loop.alarms[0]).toContain('index.lock');
  // It compares all files again, as another process may have written.
  await until(() => pushed().length === 3 && loop.isClear);
});

test('removes the lock of an earlier process before the first commit', async () => {
  lockIndex();
  const { alarms } = await commits(true);
  expect(loop.output).toMatch(/removed .*index\.lock/);
  await until(() => pushed().length === 2);
  expect(alarms).toEqual([]);
});

test('does not retry and has no alarm while it is not the leader', async () => {
  unplug();
  const { alarms } = await commits(true);
  await until(() => alarms.length > 0);
  loop.loop.follow();
  const before = alarms.length;
  plugIn();
  await pause(3 * limits.retryMaxMs);
  expect(pushed()).toEqual(['start']);
  expect([alarms.length, loop.isClear]).toEqual([before, true]);
});

describe('neither commits nor pushes an incomplete directory:', () => {
  const inHead = (path: string): string => git(repository.origin, 'show', `main:rendered/${path}`);

  /** Puts a directory in place of the second file, so that a publication fails after the first. @returns removes it */
  function obstruct(): () => void {
    mkdirSync(join(repository.rendered, fileB, 'x'), { recursive: true });
    return () => rmSync(join(repository.rendered, fileB), { recursive: true });
  }

  /** So late that the next publication comes before the commit. */
  const slowly = 500;

  test('after a failed publication, until the next one succeeds', async () => {
    await commits(true, '1\n', slowly);
    const clear = obstruct();
    const next = new Map([
      [fileA, '2\n'],
      [fileB, '2\n'],
    ]);
    await expect(loop.publish(next)).rejects.toThrow(/b\.iptables/);
    await pause(2 * slowly);
    expect([log(), loop.alarms]).toEqual([['start'], []]);
    clear();
    await loop.publish(next);
    await until(() => pushed().length === 2);
    expect([inHead(fileA), inHead(fileB)]).toEqual(['2', '2']);
  });

  test('after a failed publication, also when the next one has nothing to write', async () => {
    await commits(false, '1\n', slowly);
    const clear = obstruct();
    const next = new Map([
      [fileA, '1\n'],
      [fileB, '2\n'],
    ]);
    await expect(loop.publish(next)).rejects.toThrow(/b\.iptables/);
    await pause(2 * slowly);
    clear();
    await loop.publish(new Map([[fileA, '1\n']]));
    await until(() => log().length === 2);
  });

  test('after a publication that failed while the remote was unreachable', async () => {
    unplug();
    const { alarms } = await commits(true);
    await until(() => alarms.length > 0);
    const clear = obstruct();
    const next = new Map([[fileB, '2\n']]);
    await expect(loop.publish(next)).rejects.toThrow(/b\.iptables/);
    plugIn();
    await pause(3 * limits.retryMaxMs);
    expect(git(repository.work, 'ls-tree', '-r', '--name-only', 'HEAD')).toContain(`rendered/${fileA}`);
    clear();
    await loop.publish(next);
    await until(() => pushed().length === 3 && loop.isClear);
  });

  test('after a rebase, until the directory is rendered again', async () => {
    await commits(true);
    await until(() => pushed().length === 2);
    pushByHand();
    const next = new Map([
      [fileA, '1\n'],
      [fileB, '2\n'],
    ]);
    await loop.publish(next);
    loop.isBad = true;
    await until(() => log().includes('by hand'));
    await pause(3 * limits.retryMaxMs);
    expect(pushed()).toEqual(['by hand', first, 'start']);
    loop.isBad = false;
    await loop.publish(next);
    await until(() => pushed().length === 5);
    expect([inHead(fileA), inHead(fileB)]).toEqual(['1', '2']);
  });
});

/** Another clone changes a file of the directory, and pushes it. */
function pushByHand(): void {
  const other = join(repository.dir, 'other');
  git(repository.dir, 'clone', '--quiet', repository.origin, other);
  writeFileSync(join(other, 'rendered', fileA), 'by hand\n');
  git(other, '-c', 'user.name=o', '-c', 'user.email=o@example.com', 'commit', '--quiet', '-am', 'by hand');
  git(other, 'push', '--quiet');
}
