import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileDigest, sumsText } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../testing/bundle.fixture.ts';
import { type Arrival, Inbox } from './inbox.ts';

/** Directories that somebody else may write to: each is refused with words, and none makes the process wait, run or read elsewhere. */

let directory: string;
let bundle: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-hostile-`);
  bundle = `${directory}/rendered`;
  writeBundle(bundle, sampleBundle());
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const look = (): Promise<Arrival> => new Inbox(bundle, Date.now).look();

const place = 'profiles/default/services/shop';
/** SHA256SUMS as an attacker would like to have it read. */
function writeSums(change: (sums: string) => string): void {
  rmSync(`${bundle}/.sluice-complete`);
  const digests = new Map([...sampleBundle()].map(([path, text]) => [path, fileDigest(text)]));
  writeFileSync(`${bundle}/SHA256SUMS`, change(sumsText(digests)));
}

const spoiled: readonly [title: string, spoil: () => void, says: string][] = [
  ['a link to a file', () => symlinkSync('/etc/passwd', `${bundle}/${place}/x.iptables`), 'not a regular file'],
  ['a link to a directory', () => symlinkSync('/etc', `${bundle}/${place}/x`), 'not a regular file'],
  ['a pipe, which would wait for ever', () => mkfifo(`${bundle}/${place}/x.iptables`), 'not a regular file'],
  ['a pipe in place of the seal', () => replaceByPipe(`${bundle}/.sluice-complete`), 'not a regular file'],
  ['a huge file without content', () => makeSparse(`${bundle}/${place}/x.iptables`, 9), 'larger than'],
  ['more bytes than a bundle may have', () => makeManySparse(`${bundle}/${place}`, 8, 65), 'more than'],
  ['a device', () => execFileSync('mknod', [`${bundle}/${place}/x.iptables`, 'c', '1', '5']), 'not a regular file'],
  ['folders in folders', () => mkdirSync(`${bundle}/${'a/'.repeat(20)}`, { recursive: true }), 'deep'],
  ['a seal of another tree', () => writeFileSync(`${bundle}/.sluice-complete`, 'x\n'), 'does not match'],
  [
    'sums with a path that leads out',
    () => writeSums((s) => `${s}${'0'.repeat(64)}  ../../etc/passwd\n`),
    'SHA256SUMS',
  ],
  ['sums that lack a file', () => writeSums((s) => s.slice(s.indexOf('\n') + 1)), 'SHA256SUMS'],
  ['sums that name one file twice', () => writeSums((s) => s + s.slice(0, s.indexOf('\n') + 1)), 'SHA256SUMS'],
];

test.each(spoiled)('refuses %s with a message and a hint', async (title, spoil, says) => {
  if (title === 'a device' && process.getuid?.() !== 0) return;
  spoil();
  const arrival = await look();
  expect(arrival).toMatchObject({
    kind: 'refused',
    problems: [
      { code: 'BUNDLE_INCOMPLETE', message: expect.stringContaining(says), hint: expect.stringMatching(/\w/) },
    ],
  });
});

function mkfifo(path: string): void {
  execFileSync('mkfifo', [path]);
}

function replaceByPipe(path: string): void {
  rmSync(path);
  mkfifo(path);
}

function makeManySparse(folder: string, mebibytes: number, count: number): void {
  for (let n = 0; n < count; n++) makeSparse(`${folder}/x${n}.iptables`, mebibytes);
}

function makeSparse(path: string, mebibytes: number): void {
  writeFileSync(path, '');
  truncateSync(path, mebibytes * 1024 * 1024);
}

function git(...args: readonly string[]): string {
  const env = { PATH: '/usr/bin:/bin', HOME: directory, GIT_CONFIG_NOSYSTEM: '1' };
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main'];
  return execFileSync('git', ['-C', bundle, ...who, ...args], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  }).toString();
}

function commitBundle(): void {
  rmSync(`${bundle}/.sluice-complete`);
  git('init');
  git('add', '-A');
  git('commit', '-m', 'x');
}

describe('a Git work tree whose config names programs', () => {
  const marker = (): string => `${directory}/ran`;
  const evil = (): string => `touch ${marker()}; false`;
  beforeEach(() => {
    commitBundle();
    for (const key of ['core.fsmonitor', 'core.sshCommand', 'core.pager', 'pager.ls-tree', 'core.gitProxy'])
      git('config', key, evil());
    git('config', 'filter.x.smudge', evil());
    mkdirSync(`${directory}/hooks`);
    for (const hook of ['post-checkout', 'reference-transaction', 'post-index-change'])
      writeFileSync(`${directory}/hooks/${hook}`, `#!/bin/sh\n${evil()}\n`, { mode: 0o755 });
    git('config', 'core.hooksPath', `${directory}/hooks`);
  });

  test('is read, and none of them runs', async () => {
    expect((await look()).kind).toBe('bundle');
    expect(existsSync(marker())).toBe(false);
  });

  test.each(['uploadpack', 'vcs'])(
    'that lacks an object is refused without contacting remote.origin.%s',
    async (key) => {
      const id = git('rev-parse', 'HEAD:cluster.yaml').trim();
      rmSync(`${bundle}/.git/objects/${id.slice(0, 2)}/${id.slice(2)}`);
      git('config', 'core.repositoryformatversion', '1');
      git('config', 'extensions.partialClone', 'origin');
      git('config', 'remote.origin.promisor', 'true');
      git('config', 'remote.origin.url', key === 'vcs' ? `ext::sh -c "${evil()}"` : bundle);
      git('config', `remote.origin.${key}`, key === 'vcs' ? 'ext' : evil());
      expect(await look()).toMatchObject({ kind: 'refused', problems: [{ message: expect.stringContaining('Git') }] });
      expect(existsSync(marker())).toBe(false);
    },
  );

  test('that belongs to another user is refused, whatever its safe.directory', async () => {
    if (process.getuid?.() !== 0) return;
    git('config', 'safe.directory', '*');
    execFileSync('chown', ['-R', '65534', bundle]);
    expect(await look()).toMatchObject({
      kind: 'refused',
      problems: [{ message: expect.stringContaining('dubious') }],
    });
  });
});

describe('a Git work tree of large objects', () => {
  beforeEach(commitBundle);

  /** Commits one object of so many MiB at so many paths: a few kilobytes of repository. */
  function commitOften(mebibytes: number, fill: string, names: readonly string[]): void {
    writeFileSync(`${directory}/blob`, Buffer.alloc(mebibytes * 1024 * 1024, fill));
    const id = git('hash-object', '-w', `${directory}/blob`).trim();
    git('update-index', '--add', ...names.flatMap((name) => ['--cacheinfo', `100644,${id},${place}/${name}.iptables`]));
    git('commit', '-m', 'x');
  }
  const many = (count: number): string[] => Array.from({ length: count }, (_, n) => `x${n}`);

  test('with one object at many paths is refused for its total size before any is read', async () => {
    commitOften(8, 'x', many(110));
    expect(await look()).toMatchObject({
      kind: 'refused',
      problems: [{ message: expect.stringContaining(`more than ${512 * 1024 * 1024} bytes`) }],
    });
  });

  test('with a file that is too large is refused', async () => {
    commitOften(9, 'x', ['x']);
    expect(await look()).toMatchObject({
      kind: 'refused',
      problems: [{ message: expect.stringContaining('larger than') }],
    });
  });

  test('with large objects, some of them at several paths, is read in parts', async () => {
    for (const fill of ['a', 'b', 'c', 'd']) commitOften(7, fill, [fill, `${fill}-again`]);
    const arrival = await look();
    if (arrival.kind !== 'bundle') throw new Error(JSON.stringify(arrival));
    const firstOf = (name: string): string | undefined =>
      arrival.tree.files.get(`${place}/${name}.iptables`)?.slice(0, 1);
    expect(['a', 'b-again', 'c', 'd', 'd-again'].map(firstOf)).toEqual(['a', 'b', 'c', 'd', 'd']);
  });
});
