import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** A program in Go, with the module that pins what it is built of. */
export interface GoProgram {
  readonly name: string;
  /** A folder with `go.mod` and `go.sum`. */
  readonly module: string;
  readonly package: string;
  readonly version: string;
  /** Values of variables, as the linker takes them. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** Where a program is, or why it is not there. */
export type Built = { readonly path: string } | { readonly lack: string };

/** Outside of the checkout, so that a clean checkout does not build it again. */
const defaultCache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'sluice-parity');

/** Where a program is once it is built: by its version, and by all that it is built of. The folder of its module has no folders with sources. */
export function pathOf(program: GoProgram, cache = defaultCache): string {
  const digest = createHash('sha256');
  const sources = readdirSync(program.module).filter((file) => /^go\.(?:mod|sum)$|\.go$/.test(file));
  for (const file of sources.toSorted()) digest.update(readFileSync(join(program.module, file)));
  return join(cache, `${program.name}-${program.version}-${digest.digest('hex').slice(0, 12)}`);
}

/** Go on the path, or where its own archive and Debian put it. */
export const findGo = (): string | undefined =>
  [...(process.env['PATH'] ?? '').split(':'), '/usr/local/go/bin', '/usr/lib/go/bin']
    .map((folder) => join(folder, 'go'))
    .find((path) => existsSync(path));

export interface BuildOptions {
  readonly cache?: string;
  readonly go?: string;
  readonly timeoutMs?: number;
}

/**
 * The program from the cache, built where it is not there yet. Of several that ask at once one builds and the others wait for it: the
 * kernel holds the lock (flock) as long as the build lives, so that a build that was killed leaves nothing to clean up. A build that takes
 * longer than its caller waits goes on, and the next run has it.
 */
export async function build(
  program: GoProgram,
  { cache = defaultCache, go = findGo() ?? '', timeoutMs = 3_600_000 }: BuildOptions = {},
): Promise<Built> {
  const path = pathOf(program, cache);
  if (existsSync(path)) return { path };
  const title = `${program.name} ${program.version}`;
  if (!existsSync(go)) return { lack: `${title} is not built, and Go is not installed` };
  mkdirSync(cache, { recursive: true });
  const variables = Object.entries(program.variables ?? {}).map(([name, value]) => `-X ${name}=${value}`);
  const argv = [go, 'build', '-trimpath', '-ldflags', ['-s -w', ...variables].join(' ')];
  const { failed, timedOut, stderr, shortMessage } = await execa(
    'flock',
    [`${path}.lock`, '/bin/sh', '-c', buildOnce, path, ...argv, '-o', `${path}.part`, program.package],
    {
      cwd: program.module,
      env: { CGO_ENABLED: '0', GOFLAGS: '-mod=readonly -buildvcs=false', GOWORK: 'off' },
      reject: false,
      timeout: timeoutMs,
    },
  );
  if (timedOut) return { lack: `${title} is not built yet: not done after ${timeoutMs / 60_000} minutes` };
  return failed ? { lack: `${title} cannot be built: ${reasonOf(stderr || shortMessage || '')}` } : { path };
}

/** Behind the lock: another process may have built it meanwhile. The program gets its name when it is whole. */
const buildOnce = '[ -e "$0" ] || { nice -n 19 "$@" && mv "$0.part" "$0"; }';

/** Of all that Go says, the line with the cause. */
export function reasonOf(said: string): string {
  const lines = said.split('\n').map((line) => line.trim());
  const causes = [/no space left on device/, /dial tcp|no such host|Forbidden|Not Found|timeout/, /^go: |: /];
  const found = causes.map((cause) => lines.find((line) => cause.test(line))).find((line) => line !== undefined);
  return found ?? (lines.find((line) => line !== '') || 'Go gave no reason');
}
