import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileDigest, sumsText } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, sampleNode, writeBundle } from '../testing/bundle.fixture.ts';
import { type Arrival, Inbox } from './inbox.ts';

let directory: string;
let bundle: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-inbox-`);
  bundle = `${directory}/rendered`;
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** An inbox for which every file is old enough to be remembered. */
const inboxOf = (path = bundle): Inbox => new Inbox(path, () => Date.now() + 60_000);
const files = sampleBundle({ services: { 'shop/web': [1, 2], 'shop/cart': [3] } });
const why = (arrival: Arrival): string =>
  arrival.kind === 'refused' ? (arrival.problems[0]?.message ?? '') : arrival.kind;

function git(...args: readonly string[]): void {
  const env = { PATH: '/usr/bin:/bin', HOME: directory, GIT_CONFIG_NOSYSTEM: '1' };
  const who = ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-c', 'init.defaultBranch=main'];
  execFileSync('git', ['-C', bundle, ...who, ...args], { env, stdio: 'ignore' });
}

describe('output of sluice render', () => {
  test('a complete directory is a bundle, with all that its format knows', async () => {
    writeBundle(bundle, new Map([...files, ['nodes/other/node.yaml', 'anything']]));
    const arrival = await inboxOf().look();
    expect(arrival.kind).toBe('bundle');
    if (arrival.kind !== 'bundle') return;
    expect([...arrival.tree.files.keys()].toSorted()).toEqual([...files.keys(), 'nodes/other/node.yaml'].toSorted());
    expect(arrival.tree.files.get('cluster.yaml')).toBe(files.get('cluster.yaml'));
  });

  test('an unchanged tree is the same value, a changed file is another', async () => {
    writeBundle(bundle, files);
    const inbox = inboxOf();
    const [first, second] = [await inbox.look(), await inbox.look()];
    expect(first.kind === 'bundle' && second.kind === 'bundle' && first.tree === second.tree).toBe(true);
    writeBundle(bundle, sampleBundle({ services: { 'shop/web': [9], 'shop/cart': [3] } }));
    const third = await inbox.look();
    expect(third.kind === 'bundle' && first.kind === 'bundle' && third.tree.digest !== first.tree.digest).toBe(true);
  });

  test('a second change within the same tick of the clock is seen though the stamp is the same', async () => {
    writeBundle(bundle, files);
    const inbox = new Inbox(bundle, Date.now);
    await inbox.look();
    const path = `${bundle}/cluster.yaml`;
    writeFileSync(path, readFileSync(path, 'utf8').replace('name: test', 'name: best'));
    utimesSync(path, new Date(0), new Date(0));
    expect(why(await inbox.look())).toContain('.sluice-complete does not match');
  });

  test.each([
    ['the mark is missing', () => rmSync(`${bundle}/.sluice-complete`), 'Cannot use the directory as a bundle'],
    ['a file is missing', () => rmSync(`${bundle}/cluster.yaml`), 'does not match'],
    ['a file is half written', () => writeFileSync(`${bundle}/cluster.yaml`, 'apiVersion'), 'does not match'],
    ['a foreign file lies in it', () => writeFileSync(`${bundle}/notes.txt`, 'x'), 'unknown file'],
    ['a file is a link', () => symlinkSync('/etc/passwd', `${bundle}/profiles/default/link`), 'not a regular file'],
    ['a file is a pipe', () => execFileSync('mkfifo', [`${bundle}/pipe`]), 'not a regular file'],
    ['a folder is a link', () => symlinkSync('/etc', `${bundle}/nodes/linked`), 'not a regular file'],
  ])('is refused when %s', async (_title, spoil, expected) => {
    writeBundle(bundle, files);
    spoil();
    expect(why(await inboxOf().look())).toContain(expected);
  });

  test('a file that a newer version may have written is refused with what to do first', async () => {
    writeBundle(bundle, files);
    writeFileSync(`${bundle}/profiles/default/base/first.ebpf`, 'x');
    expect(await inboxOf().look()).toMatchObject({
      kind: 'refused',
      problems: [{ hint: expect.stringContaining('upgrade sluiced first') }],
    });
  });

  test('a missing directory is absent, not empty', async () => {
    expect((await inboxOf().look()).kind).toBe('absent');
  });

  test('a swapped link leads to the new tree', async () => {
    writeBundle(`${directory}/one`, files);
    writeBundle(`${directory}/two`, sampleBundle());
    symlinkSync(`${directory}/one`, bundle);
    const inbox = inboxOf();
    const first = await inbox.look();
    symlinkSync(`${directory}/two`, `${directory}/next`);
    renameSync(`${directory}/next`, bundle);
    const second = await inbox.look();
    expect(first.kind === 'bundle' && second.kind === 'bundle' && first.tree.digest !== second.tree.digest).toBe(true);
  });
});

describe('a release', () => {
  const seal = (): void => {
    const digests = new Map([...files].map(([path, text]) => [path, fileDigest(text)]));
    writeFileSync(`${bundle}/SHA256SUMS`, sumsText(digests));
    rmSync(`${bundle}/.sluice-complete`);
  };

  test('is a bundle when SHA256SUMS names exactly its files', async () => {
    writeBundle(bundle, files);
    seal();
    expect((await inboxOf().look()).kind).toBe('bundle');
    writeFileSync(`${bundle}/nodes/${sampleNode}/node.yaml`, 'changed');
    expect(why(await inboxOf().look())).toContain('SHA256SUMS does not match');
  });
});

describe('a Git work tree', () => {
  beforeEach(() => {
    writeBundle(bundle, files);
    git('init', '-q');
    git('add', '-A');
    git('commit', '-q', '-m', 'rules');
  });

  test('is the tree of HEAD, whatever the work files say', async () => {
    writeFileSync(`${bundle}/cluster.yaml`, 'half a checkou');
    const arrival = await inboxOf().look();
    expect(arrival.kind === 'bundle' && arrival.tree.files.get('cluster.yaml')).toBe(files.get('cluster.yaml'));
  });

  test('is another value only when HEAD has another tree', async () => {
    const inbox = inboxOf();
    const first = await inbox.look();
    git('commit', '-q', '--allow-empty', '-m', 'nothing');
    const second = await inbox.look();
    expect(first.kind === 'bundle' && second.kind === 'bundle' && first.tree === second.tree).toBe(true);
    writeBundle(bundle, sampleBundle({ services: { 'shop/web': [9], 'shop/cart': [3] } }));
    git('commit', '-q', '-a', '-m', 'more');
    const third = await inbox.look();
    expect(third.kind === 'bundle' && first.kind === 'bundle' && third.tree.digest !== first.tree.digest).toBe(true);
  });

  test('is refused when the tree has a link', async () => {
    symlinkSync('/etc/passwd', `${bundle}/nodes/evil`);
    git('add', '-A');
    git('commit', '-q', '-m', 'link');
    expect(why(await inboxOf().look())).toContain('not a regular file');
  });

  test('a folder of a larger work tree is read from HEAD too, until sluice render has written there', async () => {
    const inbox = inboxOf();
    rmSync(`${bundle}/.sluice-complete`);
    renameSync(bundle, `${directory}/all`);
    renameSync(`${directory}/all/.git`, `${directory}/.git`);
    renameSync(`${directory}/all`, bundle);
    git('add', '-A');
    git('commit', '-q', '-m', 'moved');
    expect((await inbox.look()).kind).toBe('bundle');
    writeBundle(bundle, sampleBundle({ services: { 'shop/other': [1] } }));
    rmSync(`${bundle}/profiles/default/services/shop/web.iptables`);
    rmSync(`${bundle}/profiles/default/services/shop/cart.iptables`);
    const rendered = await inbox.look();
    expect(rendered.kind === 'bundle' && rendered.tree.files.has('profiles/default/services/shop/other.iptables')).toBe(
      true,
    );
    rmSync(`${bundle}/.sluice-complete`);
    expect((await inbox.look()).kind).toBe('refused');
  });
});
