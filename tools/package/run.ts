import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { join } from 'node:path';

/** A failed packaging step, with a hint. */
export class PackageError extends Error {
  readonly hint: string;
  constructor(message: string, hint: string) {
    super(message);
    this.name = 'PackageError';
    this.hint = hint;
  }
}

/**
 * Runs a tool and returns its standard output. Its standard error is passed on.
 * @param environment instead of the caller's, except PATH: a locale or an option in it could change bytes
 */
export function run(
  file: string,
  argv: readonly string[],
  options: { readonly cwd?: string; readonly environment?: Readonly<Record<string, string>> } = {},
): string {
  return execFileSync(file, argv, {
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: { PATH: process.env['PATH'] ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC', ...options.environment },
  });
}

/** The path of a tool on PATH. */
export function findTool(name: string): string | undefined {
  return (process.env['PATH'] ?? '')
    .split(':')
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}

/** Debian package → program, for all tools of `./dev package`. */
export const debianTools = {
  binutils: 'strip',
  'binutils-aarch64-linux-gnu': 'aarch64-linux-gnu-strip',
  patchelf: 'patchelf',
  dpkg: 'dpkg-deb',
  'dpkg-dev': 'dpkg-scanpackages',
  gnupg: 'gpg',
  zstd: 'zstd',
  rpm: 'rpmbuild',
  'createrepo-c': 'createrepo_c',
} as const;

/** @throws PackageError if a tool is missing: bytes must not depend on the optional tools of a machine */
export function requireTools(): void {
  const missing = Object.entries(debianTools).filter(([, program]) => findTool(program) === undefined);
  if (missing.length === 0) return;
  throw new PackageError(
    `Cannot build packages: ${missing.map(([, program]) => program).join(', ')} not found`,
    `apt-get install ${missing.map(([name]) => name).join(' ')}`,
  );
}
