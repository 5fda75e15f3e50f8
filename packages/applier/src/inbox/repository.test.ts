import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../testing/bundle.fixture.ts';
import { type Arrival, Inbox } from './inbox.ts';
import { GitRepository } from './repository.ts';
import { trustOf } from './trust.ts';

let base: string;
let bundle: string;
beforeEach(() => {
  base = mkdtempSync(`${tmpdir()}/sluiced-repository-`);
  bundle = `${base}/rules`;
  writeBundle(bundle, sampleBundle());
  rmSync(`${bundle}/.sluice-complete`);
  git('init', '-q');
  git('add', '-A');
  git('commit', '-q', '-m', 'rules');
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function git(...args: readonly string[]): void {
  const env = { PATH: '/usr/bin:/bin', HOME: base, GIT_CONFIG_NOSYSTEM: '1' };
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main'];
  execFileSync('git', ['-C', bundle, ...who, ...args], { env, stdio: 'ignore' });
}

const inboxOf = (path = bundle): Inbox => new Inbox(path, () => Date.now() + 60_000, trustOf(undefined));
const spell = (arrival: Arrival): string =>
  arrival.kind === 'refused' ? `${arrival.problems[0]?.code}: ${arrival.problems[0]?.message}` : arrival.kind;
const lookAt = async (path = bundle): Promise<string> => spell(await inboxOf(path).look());
const gitPath = (name: string): string => (name === '' ? `${bundle}/.git` : `${bundle}/.git/${name}`);
const anObject = (): string => {
  const folder = readdirSync(gitPath('objects')).find((name) => /^[0-9a-f]{2}$/.test(name));
  return gitPath(`objects/${folder}/${readdirSync(gitPath(`objects/${folder}`))[0]}`);
};

describe('is read', () => {
  test.each([
    ['a work tree of its own', () => undefined],
    ['one whose objects and refs are packed', () => (git('gc', '-q'), git('pack-refs', '--all'))],
    ['one without a single ref', () => git('checkout', '-q', '--detach')],
  ])('%s', async (_title, prepare) => {
    prepare();
    expect(await lookAt()).toBe('bundle');
  });

  test('a clone that shares its objects by hard links', async () => {
    git('clone', '-q', bundle, `${base}/clone`);
    expect(await lookAt(`${base}/clone`)).toBe('bundle');
  });

  test('a work tree whose .git is a link to a folder, and one whose list of other objects is empty', async () => {
    git('clone', '-q', bundle, `${base}/clone`);
    writeFileSync(`${base}/clone/.git/objects/info/alternates`, '');
    expect(await lookAt(`${base}/clone`)).toBe('bundle');
    renameSync(`${base}/clone/.git`, `${base}/elsewhere`);
    symlinkSync('../elsewhere', `${base}/clone/.git`);
    expect(await lookAt(`${base}/clone`)).toBe('bundle');
    chmodSync(`${base}/elsewhere/HEAD`, 0o666);
    expect(await lookAt(`${base}/clone`)).toContain('/HEAD is writable');
  });

  test('a work tree of git worktree', async () => {
    git('worktree', 'add', '-q', '--detach', `${base}/more`);
    expect(await lookAt(`${base}/more`)).toBe('bundle');
  });

  test('a folder of a larger work tree', async () => {
    git('mv', 'profiles', 'nodes', 'cluster.yaml', mkdir('deep'));
    git('commit', '-q', '-m', 'deep');
    expect(await lookAt(`${bundle}/deep`)).toBe('bundle');
    chmodSync(gitPath('refs/heads'), 0o777);
    expect(await lookAt(`${bundle}/deep`)).toContain('refs/heads is writable by other users');
  });
});

function mkdir(name: string): string {
  mkdirSync(`${bundle}/${name}`);
  return name;
}

describe('is refused', () => {
  test.each([
    ['the Git directory', () => chmodSync(gitPath(''), 0o775), '.git is writable by other users (mode 0775)'],
    ['HEAD', () => chmodSync(gitPath('HEAD'), 0o664), '/HEAD is writable'],
    ['the config', () => chmodSync(gitPath('config'), 0o666), '/config is writable'],
    ['a folder of refs', () => chmodSync(gitPath('refs/heads'), 0o775), '/refs/heads is writable'],
    ['a ref', () => chmodSync(gitPath('refs/heads/main'), 0o664), '/refs/heads/main is writable'],
    ['the folder of objects', () => chmodSync(gitPath('objects'), 0o777), '/objects is writable'],
    ['the folder of packs', () => chmodSync(gitPath('objects/pack'), 0o777), '/objects/pack is writable'],
    ['a folder of objects', () => chmodSync(dirname(anObject()), 0o775), 'is writable by other users (mode 0775)'],
    ['an object', () => chmodSync(anObject(), 0o664), 'is writable by other users (mode 0664)'],
    [
      'packed refs',
      () => (git('pack-refs', '--all'), chmodSync(gitPath('packed-refs'), 0o666)),
      '/packed-refs is writable',
    ],
  ])('a work tree in which other users can write %s', async (_title, spoil, says) => {
    spoil();
    const said = await lookAt();
    expect(said).toContain('BUNDLE_UNTRUSTED: ');
    expect(said).toContain(says);
  });

  test('a work tree made with umask 002, with a hint that repairs all of it', async () => {
    execFileSync('chmod', ['-R', 'g+w', gitPath('')]);
    const arrival = await inboxOf().look();
    const hint = arrival.kind === 'refused' ? (arrival.problems[0]?.hint ?? '') : '';
    expect(hint).toBe(`chmod -R go-w ${bundle}/.git`);
    execFileSync('/bin/sh', ['-c', hint]);
    expect(await lookAt()).toBe('bundle');
  });

  test('a work tree with alternates', async () => {
    git('clone', '-q', '--shared', bundle, `${base}/clone`);
    expect(await lookAt(`${base}/clone`)).toContain('BUNDLE_UNTRUSTED: ');
    expect(await lookAt(`${base}/clone`)).toContain('borrows objects of another repository');
  });

  test('a repository with links in it', async () => {
    renameSync(gitPath('refs'), gitPath('elsewhere'));
    symlinkSync('elsewhere', gitPath('refs'));
    expect(await lookAt()).toContain('/refs is not a regular file or folder');
  });

  test('a repository whose HEAD is a link', async () => {
    rmSync(gitPath('HEAD'));
    symlinkSync('refs/heads/main', gitPath('HEAD'));
    expect(await lookAt()).toContain('/HEAD is not a regular file or folder');
  });

  test('a work tree whose .git is a link through an untrusted folder, or to a file', async () => {
    renameSync(gitPath(''), `${base}/elsewhere`);
    mkdirSync(`${base}/open`);
    symlinkSync('../elsewhere', `${base}/open/by`);
    symlinkSync('../open/by', gitPath(''));
    expect(await lookAt()).toBe('bundle');
    chmodSync(`${base}/open`, 0o777);
    expect(await lookAt()).toContain('/open is writable');
    writeFileSync(`${base}/leads`, `gitdir: ${base}/elsewhere\n`);
    rmSync(gitPath(''));
    symlinkSync('../leads', gitPath(''));
    expect(await lookAt()).toContain('.git is not a regular file or folder');
  });

  test.skipIf(process.getuid?.() !== 0)('a work tree whose .git is a link of another user', async () => {
    renameSync(gitPath(''), `${base}/elsewhere`);
    symlinkSync('../elsewhere', gitPath(''));
    lchownSync(gitPath(''), 4711, 0);
    expect(await lookAt()).toContain('dubious ownership');
    const places = { directory: bundle, own: `${base}/elsewhere`, common: `${base}/elsewhere` };
    const check = (): void => new GitRepository(trustOf(undefined), Date.now).check(places, 'whole');
    expect(check).toThrow('belongs to user 4711');
    lchownSync(gitPath(''), 0, 0);
    expect(check).not.toThrow();
  });

  test('a work tree of git worktree whose repository has refs, or a parent folder, writable by other users', async () => {
    git('worktree', 'add', '-q', '--detach', `${base}/more`);
    chmodSync(`${base}/more/.git`, 0o666);
    expect(await lookAt(`${base}/more`)).toContain('more/.git is writable');
    chmodSync(`${base}/more/.git`, 0o644);
    chmodSync(gitPath('worktrees/more/HEAD'), 0o666);
    expect(await lookAt(`${base}/more`)).toContain('worktrees/more/HEAD is writable');
    chmodSync(gitPath('worktrees/more/HEAD'), 0o644);
    chmodSync(gitPath('refs'), 0o777);
    expect(await lookAt(`${base}/more`)).toContain('.git/refs is writable');
  });

  test.skipIf(process.getuid?.() !== 0)('a repository with an object of another user', async () => {
    chownSync(anObject(), 4711, 0);
    expect(await lookAt()).toContain('belongs to user 4711');
  });
});

test('checks only changed folders again after an event, and everything at a whole look', async () => {
  const inbox = inboxOf();
  expect(spell(await inbox.look())).toBe('bundle');
  const object = anObject();
  chmodSync(object, 0o664);
  expect(spell(await inbox.look('changed'))).toBe('bundle');
  expect(spell(await inbox.look('whole'))).toContain('is writable');
  chmodSync(object, 0o444);
  expect(spell(await inbox.look('changed'))).toBe('bundle');
  writeFileSync(gitPath('refs/heads/other'), 'x', { mode: 0o666 });
  chmodSync(gitPath('refs/heads/other'), 0o666);
  expect(existsSync(object)).toBe(true);
  expect(spell(await inbox.look('changed'))).toContain('refs/heads/other is writable');
});

test('treats a folder that git gc removes meanwhile as empty', () => {
  let asked = 0;
  for (let at = 0; at <= asked; at++) {
    mkdirSync(gitPath('refs/heads/gone'), { recursive: true });
    writeFileSync(gitPath('refs/heads/gone/one'), '');
    asked = 0;
    const owners = new Set(trustOf(undefined).owners);
    owners.has = () => {
      if (asked++ === at) rmSync(gitPath('refs/heads/gone'), { recursive: true });
      return true;
    };
    const [directory, own] = [bundle, `${bundle}/.git`];
    new GitRepository({ owners }, Date.now).check({ directory, own, common: own }, 'whole');
  }
  expect(asked).toBeGreaterThan(10);
});

test('checks nothing without trust, as on a command line', async () => {
  execFileSync('chmod', ['-R', 'go+w', gitPath('')]);
  expect((await new Inbox(bundle, Date.now).look()).kind).toBe('bundle');
});
