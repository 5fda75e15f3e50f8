import { execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import { type Watcher, watchBundle } from './watch.ts';

let directory: string;
let bundle: string;
let events: number;
let watcher: Watcher | undefined;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-watch-`);
  bundle = `${directory}/rendered`;
  events = 0;
});
afterEach(async () => {
  await watcher?.close();
  rmSync(directory, { recursive: true, force: true });
});

const begin = async (path = bundle): Promise<void> => {
  watcher = await watchBundle(path, { onEvent: () => void events++, failed: (why) => expect(why).toBeUndefined() });
};
const swap = (target: string): void => {
  symlinkSync(target, `${directory}/next`);
  renameSync(`${directory}/next`, bundle);
};

/** Waits until the count of events has grown, and until it rests. */
async function noticed(): Promise<boolean> {
  const before = events;
  const grown = (): boolean => events > before;
  for (let tries = 0; tries < 60 && !grown(); tries++) await sleep(50);
  await sleep(150);
  return grown();
}

test('a file written at the top is noticed, also when the path ends in a slash', async () => {
  mkdirSync(bundle);
  await begin(`${bundle}/`);
  writeFileSync(`${bundle}/.sluice-complete`, 'x');
  expect(await noticed()).toBe(true);
});

const sealOf = (digit: string): string => `sha256:${digit.repeat(64)}\n`;

test('a bundle that becomes complete is noticed once, before other events would be', async () => {
  mkdirSync(bundle);
  await begin();
  const seen: number[] = [];
  for (const digit of ['1', '2', '3']) {
    rmSync(`${bundle}/.sluice-complete`, { force: true });
    writeFileSync(`${bundle}/.sluice-next.tmp`, sealOf(digit));
    const begun = performance.now();
    const before = events;
    renameSync(`${bundle}/.sluice-next.tmp`, `${bundle}/.sluice-complete`);
    for (const isNew = (): boolean => events > before; !isNew() && performance.now() - begun < 2_000; ) await sleep(1);
    seen.push(events - before);
    // Events of the watcher beneath come later, and ask for no other look.
    await sleep(limits.eventSettleMs + 250);
    seen.push(events - before);
  }
  expect(seen).toEqual([1, 1, 1, 1, 1, 1]);
});

test('half of a seal is no complete bundle: the look comes when the rest is there', async () => {
  mkdirSync(bundle);
  const looks: string[] = [];
  const read = (): string => readFileSync(`${bundle}/.sluice-complete`, 'utf8');
  watcher = await watchBundle(bundle, { onEvent: () => void looks.push(read()), failed: () => {} });
  const fd = openSync(`${bundle}/.sluice-complete`, 'w');
  writeSync(fd, sealOf('4').slice(0, 40));
  await sleep(limits.eventSettleMs / 2);
  expect(looks).toEqual([]);
  writeSync(fd, sealOf('4').slice(40));
  closeSync(fd);
  while (looks.length === 0) await sleep(1);
  expect(looks).toEqual([sealOf('4')]);
});

test.each(['pipe', 'link', 'directory'])('a seal that is a %s is left to the look after the pause', async (kind) => {
  mkdirSync(bundle);
  await begin();
  if (kind === 'pipe') spawnSync('mkfifo', [`${bundle}/.sluice-complete`]);
  else if (kind === 'directory') mkdirSync(`${bundle}/.sluice-complete`);
  else {
    writeFileSync(`${directory}/seal`, sealOf('5'));
    symlinkSync(`${directory}/seal`, `${bundle}/.sluice-complete`);
  }
  expect(await noticed()).toBe(true);
});

test('a link is noticed at every swap though its old target stays, and so is a change behind it', async () => {
  for (const name of ['one', 'two', 'three']) mkdirSync(`${directory}/${name}`);
  symlinkSync(`${directory}/one`, bundle);
  await begin();
  for (const name of ['two', 'three', 'one', 'two']) {
    swap(`${directory}/${name}`);
    expect(await noticed()).toBe(true);
  }
  writeFileSync(`${directory}/two/SHA256SUMS`, 'x');
  expect(await noticed()).toBe(true);
});

test('a directory that is replaced is watched afresh', async () => {
  mkdirSync(bundle);
  await begin();
  mkdirSync(`${directory}/other`);
  renameSync(bundle, `${directory}/old`);
  renameSync(`${directory}/other`, bundle);
  expect(await noticed()).toBe(true);
  writeFileSync(`${bundle}/.sluice-complete`, 'x');
  expect(await noticed()).toBe(true);
});

test('a directory that is removed and made again is watched afresh, though its inode may be the same one', async () => {
  mkdirSync(bundle);
  await begin();
  for (let times = 0; times < 3; times++) {
    rmSync(bundle, { recursive: true });
    mkdirSync(bundle);
    expect(await noticed()).toBe(true);
    writeFileSync(`${bundle}/.sluice-complete`, 'x');
    expect(await noticed()).toBe(true);
  }
});

test('a seal that comes back as it was is noticed: a look between may have found none', async () => {
  mkdirSync(bundle);
  writeFileSync(`${bundle}/.sluice-complete`, sealOf('6'));
  await begin();
  rmSync(`${bundle}/.sluice-complete`);
  expect(await noticed()).toBe(true);
  writeFileSync(`${bundle}/.sluice-complete`, sealOf('6'));
  expect(await noticed()).toBe(true);
});

test('a directory that comes later is noticed', async () => {
  await begin();
  mkdirSync(bundle);
  expect(await noticed()).toBe(true);
});

test('a commit in a work tree of its own is noticed', async () => {
  mkdirSync(`${bundle}/.git`, { recursive: true });
  writeFileSync(`${bundle}/.git/HEAD`, 'a');
  await begin();
  appendFileSync(`${bundle}/.git/HEAD`, 'b');
  expect(await noticed()).toBe(true);
});

test.each(['later', 'again'])('a commit is noticed in a .git that was made %s', async (when) => {
  mkdirSync(when === 'again' ? `${bundle}/.git` : bundle, { recursive: true });
  await begin();
  rmSync(`${bundle}/.git`, { recursive: true, force: true });
  mkdirSync(`${bundle}/.git`);
  expect(await noticed()).toBe(true);
  writeFileSync(`${bundle}/.git/HEAD`, 'a');
  expect(await noticed()).toBe(true);
});

test('a pull is noticed in a folder of a work tree, once the branch has moved', async () => {
  const git = (dir: string, ...args: readonly string[]): string =>
    execFileSync('git', ['-C', dir, '-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  const [origin, clone] = [`${directory}/origin`, `${directory}/clone`];
  const put = (text: string): string => {
    mkdirSync(`${origin}/rendered/services`, { recursive: true });
    writeFileSync(`${origin}/rendered/services/web`, text);
    git(origin, 'add', '-A');
    git(origin, 'commit', '-q', '-m', text);
    return git(origin, 'rev-parse', 'HEAD');
  };
  git(directory, 'init', '-q', '-b', 'main', origin);
  put('one');
  git(directory, 'clone', '-q', origin, clone);
  const heads: string[] = [];
  const onEvent = (): void => void heads.push(git(clone, 'rev-parse', 'HEAD'));
  watcher = await watchBundle(`${clone}/rendered`, { onEvent, failed: (why) => expect(why).toBeUndefined() });
  for (const text of ['two', 'three']) {
    // Below the top of the bundle, where no event is seen.
    const head = put(text);
    git(clone, 'pull', '-q', '--ff-only');
    for (let tries = 0; tries < 60 && heads.at(-1) !== head; tries++) await sleep(50);
    expect(heads.at(-1)).toBe(head);
  }
});

test('ignores changes beside the directory', async () => {
  mkdirSync(bundle);
  await begin();
  writeFileSync(`${directory}/neighbour`, 'x');
  await sleep(300);
  expect(events).toBe(0);
});

/** @returns what few-watches.fixture.ts says; undefined where no user namespace can be made */
function withFewWatches(limit: string): string | undefined {
  const script = [process.execPath, `${import.meta.dirname}/few-watches.fixture.ts`, directory, limit];
  const { stdout, stderr } = spawnSync('unshare', ['-Ur', ...script], { encoding: 'utf8', timeout: 20_000 });
  return stderr.includes('unshare: ') ? undefined : `${stdout}${stderr}`;
}

test('reports that only scans find changes while the kernel has no watch left', (context) => {
  const said = withFewWatches('max_inotify_watches') ?? context.skip();
  expect(said.replace(/(event\n)+/g, '')).toBe('unwatched ENOSPC\nwatched\nunwatched ENOSPC\nwatched\nend\n');
}, 20_000);

test('reports the same when inotify instances are exhausted', (context) => {
  const said = withFewWatches('max_inotify_instances') ?? context.skip();
  expect(said.replace(/(event\n)+/g, '')).toMatch(/^unwatched EMFILE\nwatched\n/);
  expect(said).not.toContain('not told');
  expect(said).toMatch(/end\n$/);
}, 20_000);
