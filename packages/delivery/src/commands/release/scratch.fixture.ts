import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeKey, publicKeyOf } from '@sluice/testing';
import { afterAll, beforeEach } from 'vitest';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';

const root = join(import.meta.dirname, '../../../../..');
export const example = join(root, 'examples/10-ipvs/out');
export const source = 'c0ffee'.padEnd(40, '0');

/** Every file below a directory, with its bytes. */
export const filesOf = (dir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => [join(entry.parentPath, entry.name), readFileSync(join(entry.parentPath, entry.name), 'latin1')]),
  );

/** Directories of a test file: before each test a bundle, no release, and alice and bob as signers. */
export function releaseScratch() {
  const scratch = mkdtempSync(join(tmpdir(), 'sluice-release-'));
  const [bundle, release] = [join(scratch, 'bundle'), join(scratch, 'release')];
  const signers = join(scratch, 'allowed_signers');
  for (const name of ['alice', 'bob', 'mallory', 'ends']) makeKey(join(scratch, name));
  /** A line of allowed_signers. */
  const lineOf = (name: string, options = 'namespaces="sluice-release"'): string =>
    `${name} ${options} ${publicKeyOf(join(scratch, name))}\n`;

  beforeEach(() => {
    for (const dir of [bundle, release]) rmSync(dir, { recursive: true, force: true });
    cpSync(example, bundle, { recursive: true });
    // In a work tree a changed bundle needs no `.sluice-complete`.
    rmSync(join(bundle, '.sluice-complete'), { force: true });
    execFileSync('/usr/bin/git', ['init', '-q', bundle]);
    writeFileSync(signers, lineOf('alice') + lineOf('bob'));
  });
  afterAll(() => rmSync(scratch, { recursive: true, force: true }));

  return {
    scratch,
    bundle,
    release,
    signers,
    lineOf,
    make: (...more: readonly string[]) =>
      sluice('release', bundle, '--serial', 'auto', '--source', source, '-o', release, ...more),
    sign: (name: string, ...more: readonly string[]) => sluice('sign', release, '--key', join(scratch, name), ...more),
    verify: (...more: readonly string[]) => sluice('verify', release, '--allowed-signers', signers, ...more),
  };
}
