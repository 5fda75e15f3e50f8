/** Builds everything once, before the tests of packages. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reaches } from '@sluice/testing';
import type { TestProject } from 'vitest/node';
import { fetchPackages } from '../../tools/package/images/fetch.ts';
import { makeKeyRing, signer } from './key.fixture.ts';
import { debianTools, findTool, PackageError } from '../../tools/package/run.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** The folder of the packages, or the reason why there is none. */
    readonly packages: {
      readonly folder: string;
      readonly whyNot: string;
      /** Why there are no images in it; empty if there are. */
      readonly noImages: string;
    };
  }
}

const root = join(import.meta.dirname, '../..');

/** Any time and version, as long as they are fixed. */
export const epoch = 1_750_000_000;
export const version = '0.2.0-dev.7+g0123456';
/** Where a maintainer puts the files of this release. */
export const url = 'https://downloads.example.com/sluice/';

function reasonAgainst(): string {
  if (process.arch !== 'x64') return 'packages are built on x64';
  const missing = Object.entries(debianTools).filter(([, program]) => findTool(program) === undefined);
  if (missing.length > 0) return `apt-get install ${missing.map(([name]) => name).join(' ')}`;
  const arm = '/usr/aarch64-linux-gnu/lib/libatomic.so.1';
  return existsSync(arm) ? '' : `${arm} is missing: apt-get install libatomic1-arm64-cross`;
}

/** Fetches one small package. */
function reasonAgainstImages(folder: string): string {
  try {
    fetchPackages('amd64', ['base-files'], join(folder, 'fetched'));
    return '';
  } catch (error) {
    if (error instanceof PackageError) return error.message;
    throw error;
  } finally {
    rmSync(join(folder, 'fetched'), { recursive: true, force: true });
  }
}

/** @returns a function that removes the packages again */
export default function setup(project: TestProject): () => void {
  // To reuse packages of an earlier build with the same time: a build is slow.
  const built = process.env['SLUICE_PACKAGES'];
  if (built !== undefined) {
    project.provide('packages', { folder: built, whyNot: '', noImages: '' });
    return () => {};
  }
  const folder = mkdtempSync(join(tmpdir(), 'sluice-packages-'));
  const whyNot = reasonAgainst();
  // Tier test installs one package; the second architecture would double the time.
  const isWhole = reaches('all') || (process.env['SLUICE_FILES'] ?? '') !== '';
  const noImages = whyNot || (isWhole ? reasonAgainstImages(folder) : 'images are built in tier all');
  let endKeyRing = (): void => {};
  const options = [
    '--sign-with',
    signer,
    ...(isWhole ? ['--url', url] : ['--arch', 'x64', '--no-cli']),
    ...(noImages ? ['--no-images'] : []),
  ];
  if (whyNot === '') {
    const ring = join(folder, 'gnupg');
    endKeyRing = makeKeyRing(ring);
    execFileSync(process.execPath, [join(root, 'tools/package.ts'), '-o', join(folder, 'release'), ...options], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch), SLUICE_VERSION: version, GNUPGHOME: ring },
    });
  }
  project.provide('packages', { folder: join(folder, 'release'), whyNot, noImages });
  return () => {
    endKeyRing();
    rmSync(folder, { recursive: true, force: true });
  };
}
