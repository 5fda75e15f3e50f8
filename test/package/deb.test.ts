// @module-tag test
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { noRootBecause, rootOf } from './clean-root.fixture.ts';
import { orderedVersion } from '../../tools/version.ts';
import { newer, newerThan } from './newer.fixture.ts';
import { version } from './setup.ts';
import { artefact, packages } from './unpack.fixture.ts';

const work = mkdtempSync(join(tmpdir(), 'sluice-clean-'));
const root = join(work, 'root');
const inDebian = orderedVersion(version);
const whyNot = packages.whyNot || noRootBecause();
afterAll(() => rmSync(work, { recursive: true, force: true }));

beforeAll(() => {
  if (whyNot) return;
  execaSync('cp', ['-a', rootOf([]), root]);
  copyFileSync(artefact('_amd64.deb'), join(root, 'old.deb'));
  newerThan(join(root, 'old.deb'), join(root, 'new.deb'));
  copyFileSync(artefact('-linux-x64.tar.zst'), join(root, 'archive.tar.zst'));
  const script = join(import.meta.dirname, 'lifecycle.sh');
  const given = [root, '/old.deb', '/new.deb', '/archive.tar.zst'];
  execaSync('unshare', ['-n', '-m', 'sh', script, ...given], { timeout: 240_000 });
});

const seen = (name: string): string => readFileSync(join(root, 'seen', name), 'utf8');
const config = 'etc/sluice/sluiced.yaml';
const state = 'var/lib/sluice/journal';
const program = 'usr/bin/sluiced';

test.for([
  ['installed', `install ok installed ${inDebian}`, [program], [config, state], ['daemon-reload']],
  [
    'upgraded',
    `install ok installed ${newer}`,
    [program, config, state],
    [],
    ['daemon-reload', 'try-restart sluiced-fetch.service', 'try-restart sluiced.service'],
  ],
  [
    'removed',
    `deinstall ok config-files ${newer}`,
    [config, state],
    [program],
    [
      'disable --now sluiced-fetch.service sluiced.service sluiced-boot.service sluiced-rehearse.socket',
      'daemon-reload',
    ],
  ],
  ['again', `install ok installed ${inDebian}`, [program, config, state], [], ['daemon-reload']],
  ['purged', '', [], [config, state, 'etc/sluice', 'var/lib/sluice', program], []],
] as const)(
  'once %s, the rules in the kernel are unchanged, and files are as expected',
  ([step, status, there, gone, calls], context) => {
    if (whyNot) return context.skip(whyNot);
    expect(seen('before.rules')).toContain('SLU-SVC-NPX46M4PTMTKRN6Y');
    expect(seen(`${step}.rules`)).toBe(seen('before.rules'));
    expect(seen(`${step}.package`)).toBe(status);
    const files = seen(`${step}.files`).trimEnd().split('\n');
    expect(files).toEqual(expect.arrayContaining([...there]));
    expect(files.filter((path) => (gone as readonly string[]).includes(path))).toEqual([]);
    const called = seen(`${step}.calls`).trimEnd().split('\n');
    expect(called).toEqual(expect.arrayContaining([...calls]));
  },
);

test.for(['installed', 'upgraded'])('once %s, no unit was stopped, started or enabled', (step, context) => {
  if (whyNot) return context.skip(whyNot);
  expect(seen(`${step}.calls`)).not.toMatch(/^(stop|disable|enable|start|restart) /m);
});

test('sluiced runs without Node installed, and the package reports why the daemon was not started', (context) => {
  if (whyNot) return context.skip(whyNot);
  expect(JSON.parse(seen('version'))).toMatchObject({ version });
  expect(seen('installed.output')).toContain('sluiced is not started: /etc/sluice/sluiced.yaml does not exist');
});

test('the first installation makes the key of the node, which only root can read and only a purge removes', (context) => {
  if (whyNot) return context.skip(whyNot);
  expect(seen('installed.key')).toMatch(/^600 root root\n[0-9a-f]{64} {2}-\n$/);
  expect(seen('installed.output')).toContain('this node has a receipt key');
  for (const step of ['upgraded', 'removed', 'again']) expect(seen(`${step}.key`)).toBe(seen('installed.key'));
  expect(seen('purged.key')).toBe('');
});

test('installs without /proc, as in the build of an image, and its programs work', (context) => {
  if (whyNot) return context.skip(whyNot);
  expect(seen('bare.package')).toBe(`install ok installed ${inDebian}`);
  expect(seen('bare.versions')).toBe(`${version}\n${version}\n`);
  expect(seen('bare.output')).toContain('this node has a receipt key');
  expect(seen('bare.key')).toMatch(/^600 root root\n/);
});

test('a shell in the clean root completes commands of both programs', (context) => {
  if (whyNot) return context.skip(whyNot);
  expect(seen('completed')).toBe('sluice: verify version\nsluiced: version\n');
});

test('the archive is installed and removed as its README says, and rules stay', (context) => {
  if (whyNot) return context.skip(whyNot);
  expect(seen('archive.line')).toMatch(/^node-a namespaces="sluice-receipt" ssh-ed25519 \S+\n$/);
  expect(seen('archive.key')).toMatch(/^600 root root\n/);
  expect(seen('archive.files').split('\n')).toContain(program);
  expect(seen('archive-removed.files').split('\n')).toEqual(expect.arrayContaining([config, 'var/lib/sluice']));
  expect(seen('archive-removed.files')).not.toContain(program);
  for (const step of ['archive', 'archive-removed']) expect(seen(`${step}.rules`)).toBe(seen('before.rules'));
});

test('dpkg verifies every file', (context) => {
  if (whyNot) return context.skip(whyNot);
  expect(seen('verify')).toBe('');
});
