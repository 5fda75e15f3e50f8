// @module-tag all
import {
  appendFileSync,
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { buildRpm, buildRpmRepository } from '../../tools/package/rpm.ts';
import { signerOf } from '../../tools/package/sign.ts';
import { orderedVersion } from '../../tools/version.ts';
import { noRootBecause, rootOf } from './clean-root.fixture.ts';
import { makeKeyRing, signer } from './key.fixture.ts';
import { newer } from './newer.fixture.ts';
import { epoch, version } from './setup.ts';
import { artefact, packages, scratch, unpackDeb } from './unpack.fixture.ts';

/** The repository of a release, by Debian's dnf and rpm in a clean root: what docs/install.md says, and what a mirror that lies gets. */

const whyNot = packages.whyNot || noRootBecause();
const work = mkdtempSync(join(tmpdir(), 'sluice-rpm-'));
const root = join(work, 'root');
const endings = [() => rmSync(work, { recursive: true, force: true })];
afterAll(() => {
  for (const end of endings) end();
});

const inside = (...argv: readonly string[]) => {
  // Debian's rpm has its database below HOME.
  const clean = ['/usr/bin/env', '-i', 'PATH=/usr/sbin:/usr/bin:/sbin:/bin', 'HOME=/root'];
  return execaSync('unshare', ['-m', '-n', 'chroot', root, ...clean, ...argv], { reject: false, all: true });
};
const dnf = (...argv: readonly string[]) => inside('dnf', '-y', ...argv);
const key = '/etc/pki/rpm-gpg/RPM-GPG-KEY-sluice';

/** The packages of this root are Debian's: one without files stands for those that ours asks for. */
function installSystem(): void {
  const needs = 'glibc = 2.36, libgcc, libstdc++, iptables = 1.8.9, ipset = 7.17, util-linux, openssh, /bin/sh';
  const head = 'Name: system\nVersion: 1\nRelease: 1\nSummary: x\nLicense: x\nBuildArch: noarch\n';
  writeFileSync(join(work, 'system.spec'), `${head}Provides: ${needs}\n%description\n%files\n`);
  const places = ['_topdir', '_rpmdir'].flatMap((name) => ['--define', `${name} ${work}`]);
  execaSync('rpmbuild', ['-bb', '--quiet', ...places, join(work, 'system.spec')]);
  copyFileSync(join(work, 'noarch/system-1-1.noarch.rpm'), join(root, 'system.rpm'));
  expect(inside('rpm', '-i', '/system.rpm')).toMatchObject({ exitCode: 0 });
}

/** What scripts called since the last time. */
function systemctlCalls(): string {
  const file = join(root, 'calls');
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  rmSync(file, { force: true });
  return text;
}

beforeAll(() => {
  if (whyNot) return;
  execaSync('cp', ['-a', rootOf(['dnf', 'gnupg', 'rpm']), root]);
  for (const path of ['etc/pki/rpm-gpg', 'etc/yum.repos.d', 'run/systemd/system'])
    mkdirSync(join(root, path), { recursive: true });
  writeFileSync(join(root, 'usr/bin/systemctl'), '#!/bin/sh\necho "$*" >>/calls\n');
  chmodSync(join(root, 'usr/bin/systemctl'), 0o755);
  installSystem();
  cpSync(join(packages.folder, 'rpm'), join(root, 'srv/rpm'), { recursive: true });
  copyFileSync(join(packages.folder, 'rpm/sluice.asc'), join(root, key));
  writeFileSync(
    join(root, 'etc/yum.repos.d/sluice.repo'),
    `[sluice]\nname=Sluice\nbaseurl=file:///srv/rpm\ngpgkey=file://${key}\ngpgcheck=1\nrepo_gpgcheck=1\n`,
  );
}, 600_000);

const receiptKey = (): string => readFileSync(join(root, 'var/lib/sluice/receipt_key'), 'hex');

test('dnf installs it, and both programs start', { timeout: 300_000 }, (context) => {
  if (whyNot) return context.skip(whyNot);
  const installed = dnf('install', 'sluice');
  expect({ exitCode: installed.exitCode, all: installed.all }).toMatchObject({ exitCode: 0 });
  expect(installed.all).toContain('sluiced is not started: /etc/sluice/sluiced.yaml does not exist');
  for (const program of ['sluice', 'sluiced']) expect(inside(program, '--version').stdout).toBe(version);
  expect(inside('rpm', '-q', '--qf', '%{VERSION}', 'sluice').stdout).toBe(orderedVersion(version));
  expect(inside('rpm', '-V', 'sluice')).toMatchObject({ exitCode: 0, stdout: '' });
  expect(systemctlCalls()).toBe('daemon-reload\n');
  expect(statSync(join(root, 'var/lib/sluice')).mode & 0o777).toBe(0o700);
  expect(receiptKey()).not.toBe('');
});

test('a repository that another key signed is refused, and one of a trusted key is an upgrade', {
  timeout: 300_000,
}, (context) => {
  if (whyNot) return context.skip(whyNot);
  const [before, later, tree] = [receiptKey(), scratch(), unpackDeb('amd64')];
  endings.unshift(makeKeyRing(join(work, 'ring')));
  vi.stubEnv('GNUPGHOME', join(work, 'ring'));
  buildRpm(join(import.meta.dirname, '../..'), tree, 'x64', { version: newer, epoch: epoch + 1 }, later);
  buildRpmRepository({ version: newer, epoch: epoch + 1 }, later, signerOf(signer));
  rmSync(join(root, 'srv/rpm'), { recursive: true });
  cpSync(join(later, 'rpm'), join(root, 'srv/rpm'), { recursive: true });
  expect(dnf('upgrade', '--refresh', 'sluice').all).toMatch(/GPG/);
  expect(inside('rpm', '-q', '--qf', '%{VERSION}', 'sluice').stdout).toBe(orderedVersion(version));

  copyFileSync(join(later, 'rpm/sluice.asc'), join(root, key));
  const upgraded = dnf('upgrade', '--refresh', 'sluice');
  expect({ exitCode: upgraded.exitCode, all: upgraded.all }).toMatchObject({ exitCode: 0 });
  expect(inside('rpm', '-q', '--qf', '%{VERSION}', 'sluice').stdout).toBe(newer);
  // A daemon that runs is restarted; nothing is stopped for good.
  expect(systemctlCalls()).toMatch(/^daemon-reload\ntry-restart sluiced\.service\n(?!.*disable)/);
  expect(receiptKey()).toBe(before);
});

test('a package that a mirror changed is refused', { timeout: 120_000 }, (context) => {
  if (whyNot) return context.skip(whyNot);
  const [name = ''] = readdirSync(join(root, 'srv/rpm')).filter((one) => one.endsWith('.rpm'));
  appendFileSync(join(root, 'srv/rpm', name), 'x');
  const refused = dnf('reinstall', 'sluice');
  expect(refused.exitCode).not.toBe(0);
  expect(refused.all).toMatch(/checksum/i);
});

test('a removal stops the units, and leaves the state and the rules', { timeout: 120_000 }, (context) => {
  if (whyNot) return context.skip(whyNot);
  const removed = dnf('remove', 'sluice');
  expect(removed).toMatchObject({ exitCode: 0 });
  expect(removed.all).toContain('the rules stay in the kernel');
  const units = 'sluiced-fetch.service sluiced.service sluiced-boot.service sluiced-rehearse.socket';
  expect(systemctlCalls()).toBe(`disable --now ${units}\ndaemon-reload\n`);
  expect(existsSync(join(root, 'usr/bin/sluiced'))).toBe(false);
  expect(existsSync(join(root, 'usr/share/doc/sluice'))).toBe(false);
  expect(receiptKey()).not.toBe('');
});

test.for([
  ['x86_64', 'amd64'],
  ['aarch64', 'arm64'],
] as const)(
  'the package for %s has the files of the Debian package, and the signature of the release',
  ([arch, debian], context) => {
    if (packages.whyNot) return context.skip(packages.whyNot);
    const file = artefact(`.${arch}.rpm`);
    const listed = (query: string): readonly string[] =>
      execaSync('rpm', ['-qp', '--nosignature', '--qf', query, file]).stdout.split('\n').toSorted();
    const { stdout: contents } = execaSync('dpkg-deb', ['--contents', artefact(`_${debian}.deb`)]);
    const files = [...contents.matchAll(/^[-l].* \.(\/\S+)(?: -> .*)?$/gm)].map(([, path = '']) => path);
    const expected = files.map((path) => path.replace('zsh/vendor-completions', 'zsh/site-functions'));
    const own = listed('[%{FILEMODES:perms} %{FILENAMES}\n]').flatMap((line) => /^[-l]\S+ (.+)$/.exec(line)?.[1] ?? []);
    expect(own.toSorted()).toEqual(expected.toSorted());
    expect(listed('%{ARCH} %{OS} %{LICENSE} %{NAME}')).toEqual([`${arch} linux Apache-2.0 sluice`]);
    const database = scratch();
    const rpm = (...argv: readonly string[]) => execaSync('rpm', ['--dbpath', database, ...argv], { reject: false });
    expect(rpm('-K', file).stdout).toContain('SIGNATURES NOT OK');
    expect(rpm('--import', join(packages.folder, 'rpm/sluice.asc'))).toMatchObject({ exitCode: 0 });
    expect(rpm('-K', file).stdout).toContain('digests signatures OK');
  },
);
