/** Builds everything once, while tests of other projects run; `unpack.fixture.ts` waits for the end. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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
      /** A file with the exit code of the build, once it has ended; empty if nothing is built. */
      readonly ended: string;
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
export default function setup(project: TestProject): () => Promise<void> {
  // To reuse packages of an earlier build with the same time: a build is slow.
  const built = process.env['SLUICE_PACKAGES'];
  if (built !== undefined) {
    project.provide('packages', { folder: built, whyNot: '', noImages: '', ended: '' });
    return () => Promise.resolve();
  }
  const folder = mkdtempSync(join(tmpdir(), 'sluice-packages-'));
  const whyNot = reasonAgainst();
  // Tier test installs one package; the second architecture would double the time.
  const isWhole = reaches('all') || (process.env['SLUICE_FILES'] ?? '') !== '';
  const noImages = whyNot || (isWhole ? reasonAgainstImages(folder) : 'images are built in tier all');
  const options = [
    '--sign-with',
    signer,
    ...(isWhole ? ['--url', url] : ['--arch', 'x64', '--no-cli']),
    ...(noImages ? ['--no-images'] : []),
  ];
  const ended = whyNot ? '' : join(folder, 'ended');
  const end = whyNot ? () => Promise.resolve() : build(folder, options, ended);
  project.provide('packages', { folder: join(folder, 'release'), whyNot, noImages, ended });
  return async () => {
    await end();
    rmSync(folder, { recursive: true, force: true });
  };
}

/** @returns what ends the build and its key ring */
function build(folder: string, options: readonly string[], ended: string): () => Promise<void> {
  const ring = join(folder, 'gnupg');
  const endKeyRing = makeKeyRing(ring);
  const builder = spawn(process.execPath, [join(root, 'tools/package.ts'), '-o', join(folder, 'release'), ...options], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch), SLUICE_VERSION: version, GNUPGHOME: ring },
  });
  const ends = once(builder, 'exit').then(([code]) => writeFileSync(ended, String(code)));
  return async () => {
    builder.kill();
    await ends;
    endKeyRing();
  };
}
