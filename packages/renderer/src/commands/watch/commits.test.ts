import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LiveTree } from '../../emit/live-tree.ts';
import { Committer, type HoldablePublisher } from './commits.ts';

/** The limits of the program, scaled down. */
const limits = { maxDelayMs: 600, settleMs: 20, pushesMax: 5, pushPauseMs: 5, retryMs: 50, retryMaxMs: 100 };
const fileA = 'profiles/default/services/shop/a.iptables';
const first = 'sluice: initial render of 1 Service for 0 nodes';
const fileB = 'profiles/default/services/shop/b.iptables';

let dir: string;
let rendered: string;
let origin: string;
let alarms: string[];
let output: string;
let isClear: boolean;
let committer: Committer | undefined;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-commits-'));
  origin = join(dir, 'origin.git');
  rendered = join(dir, 'work', 'rendered');
  [alarms, output, isClear] = [[], '', true];
  git(dir, 'init', '--quiet', '--bare', '--initial-branch=main', origin);
  git(dir, 'clone', '--quiet', origin, 'work');
  git(join(dir, 'work'), 'checkout', '--quiet', '-b', 'main');
  git(join(dir, 'work'), 'config', 'user.name', 'watch');
  git(join(dir, 'work'), 'config', 'user.email', 'watch@example.com');
  git(join(dir, 'work'), 'commit', '--quiet', '--allow-empty', '--message', 'start');
  git(join(dir, 'work'), 'push', '--quiet', '--set-upstream', 'origin', 'main');
  mkdirSync(rendered);
});
afterEach(async () => {
  committer?.stop();
  await committer?.finish();
  committer = undefined;
  rmSync(dir, { recursive: true });
});

function git(cwd: string, ...args: readonly string[]): string {
  return execFileSync('git', args, { cwd, encoding: 'utf8', stdio: 'pipe' }).trim();
}

/** A publisher that publishes given files on demand. */
class ManualPublisher implements HoldablePublisher {
  readonly tree = new LiveTree(rendered);
  files: ReadonlyMap<string, string> = new Map();
  /** Simulates files that cannot be rendered. */
  isBad = false;

  get isWhole(): boolean {
    return this.tree.isWhole;
  }

  holds = 0;

  hold(): void {
    this.holds += 1;
  }

  release(how?: 'same' | 'changed'): void {
    this.holds -= 1;
    if (how === 'changed') this.tree.forget();
  }

  publishNow(): void {
    if (!this.isBad) this.publish(this.files);
  }

  publish(files: ReadonlyMap<string, string>): void {
    this.files = files;
    const published = this.tree.publish(files);
    if ('code' in published) throw new Error(published.message);
    committer?.add({ ...published, about: ['Service shop/a'], files, quarantine: [], ignored: [] });
  }
}

/** Starts a committer with a manual publisher. */
async function commits(isPushing: boolean): Promise<ManualPublisher> {
  const hand = new ManualPublisher();
  const listener = {
    alarm: (why: string) => ((isClear = false), alarms.push(why)),
    clear: () => (isClear = true),
    say: (text: string) => (output += text),
  };
  committer = new Committer(rendered, isPushing, hand, listener, limits);
  await committer.start(false);
  return hand;
}

async function until(isSo: () => boolean): Promise<void> {
  for (const end = Date.now() + 15_000; !isSo(); await pause(20))
    if (Date.now() > end) throw new Error(`Waited too long; there were ${alarms.length} alarms: ${alarms.at(-1)}`);
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const log = (repository: string): string[] => git(repository, 'log', '--format=%s', 'main').split('\n');

test('pushes the commit when the remote returns after all push attempts failed', async () => {
  const hand = await commits(true);
  renameSync(origin, `${origin}.away`);
  hand.publish(new Map([[fileA, '1\n']]));
  await until(() => alarms.length >= 2);
  expect(alarms[0]).toMatch(/Cannot push .*origin\.git/s);
  expect(log(join(dir, 'work'))).toEqual([first, 'start']);
  renameSync(`${origin}.away`, origin);
  await until(() => log(origin).length === 2 && isClear);
});

test('the first commit message counts Services, later ones name changes, also from another process', async () => {
  const committed = async (hand: ManualPublisher, text: string, count: number): Promise<void> => {
    hand.publish(new Map([[fileA, text]]));
    await until(() => output.split('committed: ').length === count + 1);
  };
  const hand = await commits(false);
  await committed(hand, '1\n', 1);
  await committed(hand, '2\n', 2);
  committer?.stop();
  await committer?.finish();
  await committed(await commits(false), '3\n', 3);
  expect(log(join(dir, 'work'))).toEqual(['watch: Service shop/a', 'watch: Service shop/a', first, 'start']);
});

test('commits during changes that never settle', async () => {
  const hand = await commits(false);
  // Git fails when a file changes while it is added, so the publisher is on hold during a commit.
  const change = (): void => {
    if (hand.holds === 0) hand.publish(new Map([[fileA, `${Date.now()}\n`]]));
  };
  const busy = setInterval(change, limits.settleMs / 2);
  await until(() => log(join(dir, 'work')).length >= 3);
  clearInterval(busy);
  expect(alarms).toEqual([]);
});

test('retries a failed commit without a new change', async () => {
  const hand = await commits(false);
  const hook = join(dir, 'work', '.git', 'hooks', 'prepare-commit-msg');
  writeFileSync(hook, '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  hand.publish(new Map([[fileA, '1\n']]));
  await until(() => alarms.length > 0);
  rmSync(hook);
  await until(() => log(join(dir, 'work')).length === 2 && isClear);
  expect(output).toContain(`committed: ${first}`);
});

test('removes the lock of a killed git before the next attempt', async () => {
  const hand = await commits(true);
  const lock = join(dir, 'work', '.git', 'index.lock');
  writeFileSync(lock, '');
  utimesSync(lock, new Date(0), new Date(0));
  hand.publish(new Map([[fileA, '1\n']]));
  await until(() => output.includes('removed'));
  expect(alarms[0]).toContain('index.lock');
  // The publisher compares all files again, as another process may have written.
  await pause(limits.retryMs);
  hand.publishNow();
  await until(() => log(origin).length === 2 && isClear);
});

test('removes the lock of an earlier process before the first commit', async () => {
  const lock = join(dir, 'work', '.git', 'index.lock');
  writeFileSync(lock, '');
  utimesSync(lock, new Date(0), new Date(0));
  const hand = await commits(true);
  expect(output).toMatch(/removed .*index\.lock/);
  hand.publish(new Map([[fileA, '1\n']]));
  await until(() => log(origin).length === 2);
  expect(alarms).toEqual([]);
});

test('does not retry and has no alarm while it is not the leader', async () => {
  const hand = await commits(true);
  renameSync(origin, `${origin}.away`);
  hand.publish(new Map([[fileA, '1\n']]));
  await until(() => alarms.length > 0);
  committer?.stop();
  await committer?.finish();
  const before = alarms.length;
  renameSync(`${origin}.away`, origin);
  await pause(3 * limits.retryMaxMs);
  expect(log(origin)).toEqual(['start']);
  expect([alarms.length, isClear]).toEqual([before, true]);
});

describe('neither commits nor pushes an incomplete directory:', () => {
  const inHead = (path: string): string => git(origin, 'show', `main:rendered/${path}`);

  /** A directory in place of the second file, so that a publication fails after the first. */
  const obstacle = (): string => join(rendered, fileB, 'x');

  test('after a failed publication, until the next one succeeds', async () => {
    const hand = await commits(true);
    hand.publish(new Map([[fileA, '1\n']]));
    mkdirSync(obstacle(), { recursive: true });
    const next = new Map([
      [fileA, '2\n'],
      [fileB, '2\n'],
    ]);
    expect(() => hand.publish(next)).toThrow(/b\.iptables/);
    await pause(20 * limits.settleMs);
    expect([log(join(dir, 'work')), alarms]).toEqual([['start'], []]);
    rmSync(join(rendered, fileB), { recursive: true });
    hand.publish(next);
    await until(() => log(origin).length === 2);
    expect([inHead(fileA), inHead(fileB)]).toEqual(['2', '2']);
  });

  test('after a failed publication, also when the next one has nothing to write', async () => {
    const hand = await commits(false);
    hand.publish(new Map([[fileA, '1\n']]));
    mkdirSync(obstacle(), { recursive: true });
    const next = new Map([
      [fileA, '1\n'],
      [fileB, '2\n'],
    ]);
    expect(() => hand.publish(next)).toThrow(/b\.iptables/);
    await pause(20 * limits.settleMs);
    rmSync(join(rendered, fileB), { recursive: true });
    hand.publish(new Map([[fileA, '1\n']]));
    await until(() => log(join(dir, 'work')).length === 2);
  });

  test('after a publication that failed while the remote was unreachable', async () => {
    const hand = await commits(true);
    renameSync(origin, `${origin}.away`);
    hand.publish(new Map([[fileA, '1\n']]));
    await until(() => alarms.length > 0);
    mkdirSync(obstacle(), { recursive: true });
    const next = new Map([[fileB, '2\n']]);
    expect(() => hand.publish(next)).toThrow(/b\.iptables/);
    renameSync(`${origin}.away`, origin);
    await pause(3 * limits.retryMaxMs);
    expect(git(join(dir, 'work'), 'ls-tree', '-r', '--name-only', 'HEAD')).toContain(`rendered/${fileA}`);
    rmSync(join(rendered, fileB), { recursive: true });
    hand.publish(next);
    await until(() => log(origin).length === 3 && isClear);
  });

  test('after a rebase, until the directory is rendered again', async () => {
    const hand = await commits(true);
    hand.publish(new Map([[fileA, '1\n']]));
    await until(() => log(origin).length === 2);
    git(dir, 'clone', '--quiet', origin, 'other');
    const other = join(dir, 'other');
    writeFileSync(join(other, 'rendered', fileA), 'by hand\n');
    git(other, '-c', 'user.name=o', '-c', 'user.email=o@example.com', 'commit', '--quiet', '-am', 'by hand');
    git(other, 'push', '--quiet');
    hand.isBad = true;
    const next = new Map([
      [fileA, '1\n'],
      [fileB, '2\n'],
    ]);
    hand.publish(next);
    await until(() => log(join(dir, 'work')).includes('by hand'));
    await pause(3 * limits.retryMaxMs);
    expect(log(origin)).toEqual(['by hand', first, 'start']);
    hand.isBad = false;
    hand.publish(next);
    await until(() => log(origin).length === 5);
    expect([inHead(fileA), inHead(fileB)]).toEqual(['1', '2']);
  });
});
