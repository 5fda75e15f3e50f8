// @module-tag all
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { buildAptRepository } from '../../tools/package/apt.ts';
import { signerOf } from '../../tools/package/sign.ts';
import { orderedVersion } from '../../tools/version.ts';
import { makeRoot, noRootBecause } from './clean-root.fixture.ts';
import { makeKeyRing, signer } from './key.fixture.ts';
import { newer, newerThan } from './newer.fixture.ts';
import { epoch, version } from './setup.ts';
import { artefact, packages } from './unpack.fixture.ts';

/** The repository of a release, by the real apt in clean roots: what docs/install.md says, and what a mirror that lies gets. */

const whyNot = packages.whyNot || noRootBecause();
const work = mkdtempSync(join(tmpdir(), 'sluice-apt-'));
const endings: (() => void)[] = [];
afterAll(() => {
  for (const end of endings) end();
  rmSync(work, { recursive: true, force: true });
});

describe.each(['bookworm', 'trixie'])('on a minimal Debian %s', (suite) => {
  const root = join(work, suite);
  const inside = (...argv: readonly string[]) =>
    execaSync(
      'unshare',
      [
        '-m',
        'chroot',
        root,
        '/usr/bin/env',
        '-i',
        'PATH=/usr/sbin:/usr/bin:/sbin:/bin',
        'DEBIAN_FRONTEND=noninteractive',
        ...argv,
      ],
      { reject: false, all: true },
    );
  /** Only this repository: what it depends on is installed. */
  const update = () => inside('apt-get', 'update', '--error-on=any');

  beforeAll(() => {
    if (whyNot) return;
    makeRoot(root, [], suite);
    cpSync(join(packages.folder, 'apt'), join(root, 'srv/apt'), { recursive: true });
    cpSync(join(packages.folder, 'apt/sluice.gpg'), join(root, 'etc/apt/keyrings/sluice.gpg'));
    rmSync(join(root, 'etc/apt/sources.list'), { force: true });
    rmSync(join(root, 'etc/apt/sources.list.d'), { recursive: true, force: true });
    mkdirSync(join(root, 'etc/apt/sources.list.d'));
    writeFileSync(
      join(root, 'etc/apt/sources.list.d/sluice.list'),
      'deb [signed-by=/etc/apt/keyrings/sluice.gpg] file:/srv/apt stable main\n',
    );
  }, 300_000);

  test('apt-get installs it, and a release of later is an upgrade', { timeout: 300_000 }, (context) => {
    if (whyNot) return context.skip(whyNot);
    expect(update()).toMatchObject({ exitCode: 0 });
    const installed = inside('apt-get', 'install', '-y', '--no-install-recommends', 'sluice');
    expect({ exitCode: installed.exitCode, all: installed.all }).toMatchObject({ exitCode: 0 });
    for (const program of ['sluice', 'sluiced']) expect(inside(program, '--version').stdout).toBe(version);
    expect(inside('dpkg-query', '-W', '-f', '${Version}', 'sluice').stdout).toBe(orderedVersion(version));

    const later = join(work, `${suite}-later`);
    cpSync(packages.folder, later, {
      recursive: true,
      filter: (path) => path === packages.folder || /^[^/]+_amd64\.deb$/.test(path.slice(packages.folder.length + 1)),
    });
    newerThan(artefact('_amd64.deb'), join(later, 'sluice_newer_amd64.deb'));
    const ring = join(work, `${suite}-ring`);
    endings.push(makeKeyRing(ring));
    vi.stubEnv('GNUPGHOME', ring);
    buildAptRepository(['x64'], { version: newer, epoch: epoch + 1 }, later, signerOf(signer));
    rmSync(join(root, 'srv/apt'), { recursive: true });
    cpSync(join(later, 'apt'), join(root, 'srv/apt'), { recursive: true });
    // Signed by another key than the one that the node trusts.
    const refused = update();
    expect(refused.exitCode).not.toBe(0);
    expect(refused.all).toMatch(/NO_PUBKEY|Missing key/);
    expect(inside('apt-get', 'install', '-y', 'sluice').all).not.toContain(newer);

    cpSync(join(later, 'apt/sluice.gpg'), join(root, 'etc/apt/keyrings/sluice.gpg'));
    expect(update()).toMatchObject({ exitCode: 0 });
    expect(inside('apt-get', 'upgrade', '-y')).toMatchObject({ exitCode: 0 });
    expect(inside('dpkg-query', '-W', '-f', '${Version}', 'sluice').stdout).toBe(newer);
  });

  test('a mirror that changes an index or a package is refused', { timeout: 120_000 }, (context) => {
    if (whyNot) return context.skip(whyNot);
    const index = join(root, 'srv/apt/dists/stable/main/binary-amd64/Packages');
    for (const path of [index, `${index}.gz`])
      writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.from('\n')]));
    rmSync(join(root, 'var/lib/apt/lists'), { recursive: true });
    expect(update().exitCode).not.toBe(0);
    expect(existsSync(join(root, 'usr/bin/sluiced'))).toBe(true);
  });
});

test('SHA256SUMS is signed by the key of the repository', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const [sums, key] = ['SHA256SUMS', 'apt/sluice.gpg'].map((name) => join(packages.folder, name)) as [string, string];
  execaSync('gpgv', ['--keyring', key, `${sums}.asc`, sums]);
  const changed = join(work, 'SHA256SUMS');
  writeFileSync(changed, readFileSync(sums, 'utf8').replace(/^./, 'x'));
  expect(execaSync('gpgv', ['--keyring', key, `${sums}.asc`, changed], { reject: false }).exitCode).not.toBe(0);
});
