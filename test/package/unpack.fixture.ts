import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execaSync } from 'execa';
import { inject, onTestFinished } from 'vitest';

export const packages = inject('packages');

// The build began with the run (setup.ts); a file of tests begins when it has ended.
while (packages.ended && !existsSync(packages.ended)) await sleep(200);
if (packages.ended && readFileSync(packages.ended, 'utf8') !== '0')
  throw new Error('Cannot build the packages: tools/package.ts says why on standard error');

/** A folder that is removed after the test. */
export function scratch(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-package-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The one package with this ending. */
export function artefact(ending: string): string {
  const names = readdirSync(packages.folder).filter((name) => name.endsWith(ending));
  if (names.length !== 1) throw new Error(`${names.length} packages end with ${ending}`);
  return join(packages.folder, names[0] as string);
}

/** Unpacks the Debian package of an architecture below a new folder. */
export function unpackDeb(arch: 'amd64' | 'arm64'): string {
  const folder = scratch();
  execaSync('dpkg-deb', ['-x', artefact(`_${arch}.deb`), folder]);
  return folder;
}
