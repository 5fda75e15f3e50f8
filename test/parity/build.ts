import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';

/** A Go program, with the module that pins its dependencies. */
export interface GoProgram {
  readonly name: string;
  /** A folder with `go.mod` and `go.sum`. */
  readonly module: string;
  readonly package: string;
  readonly version: string;
  /** The package's tests, as a program. */
  readonly isTest?: boolean;
  /** Values of variables, for the linker. */
  readonly variables?: Readonly<Record<string, string>>;
}

/** The path of a program, or the reason why it is missing. */
export type Built = { readonly path: string } | { readonly lack: string };

/** Outside of the checkout, so that a clean checkout does not build it again. */
export const cacheFolder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'sluice-parity');

/**
 * The path of a built program: by its version, and a digest of its sources. The folder of its module has no subfolders with sources; that
 * of a module which stands in for another one has.
 */
export function pathOf(program: GoProgram, cache = cacheFolder): string {
  const digest = createHash('sha256');
  const addSources = (folder: string, recursive: boolean): void => {
    const files = readdirSync(folder, { recursive, encoding: 'utf8' });
    const sources = files.filter((file) => /(?:^|\/)go\.(?:mod|sum)$|\.go$/.test(file));
    for (const file of sources.toSorted()) digest.update(readFileSync(join(folder, file)));
  };
  addSources(program.module, false);
  const goMod = readFileSync(join(program.module, 'go.mod'), 'utf8');
  for (const [, folder = ''] of goMod.matchAll(/ => (\.\S+)$/gm)) addSources(join(program.module, folder), true);
  return join(cache, `${program.name}-${program.version}-${digest.digest('hex').slice(0, 12)}`);
}

/** Go on the path, or at the places of its own archive and of Debian. */
export const findGo = (): string | undefined =>
  [...(process.env['PATH'] ?? '').split(':'), '/usr/local/go/bin', '/usr/lib/go/bin']
    .map((folder) => join(folder, 'go'))
    .find((path) => existsSync(path));

/**
 * Variables for every run of Go. A module may ask for a newer Go than the installed one: `auto` takes it from the module proxy, which
 * Debian's and others' installations switch off.
 */
export const goEnv = { CGO_ENABLED: '0', GOTOOLCHAIN: 'auto', GOWORK: 'off' } as const;

export interface BuildOptions {
  readonly cache?: string;
  readonly go?: string;
  readonly timeoutMs?: number;
}

/**
 * The program from the cache, built if it is missing. Of several simultaneous callers one builds and the others wait for it: the
 * kernel holds the lock (flock) as long as the build lives, so that a killed build leaves nothing to clean up. A build that takes
 * longer than its caller waits continues, and the next run uses it.
 */
export async function build(
  program: GoProgram,
  { cache = cacheFolder, go = findGo() ?? '', timeoutMs = 3_600_000 }: BuildOptions = {},
): Promise<Built> {
  const path = pathOf(program, cache);
  if (existsSync(path)) return { path };
  const title = `${program.name} ${program.version}`;
  if (!existsSync(go)) return { lack: `${title} is not built, and Go is not installed` };
  mkdirSync(cache, { recursive: true });
  const variables = Object.entries(program.variables ?? {}).map(([name, value]) => `-X ${name}=${value}`);
  const verb = program.isTest === true ? ['test', '-c'] : ['build'];
  const argv = [go, ...verb, '-trimpath', '-ldflags', ['-s -w', ...variables].join(' ')];
  const { failed, timedOut, stderr, shortMessage } = await execa(
    'flock',
    [`${path}.lock`, '/bin/sh', '-c', buildOnce, path, ...argv, '-o', `${path}.part`, program.package],
    {
      cwd: program.module,
      env: { ...goEnv, GOFLAGS: '-mod=readonly -buildvcs=false' },
      reject: false,
      timeout: timeoutMs,
    },
  );
  if (timedOut) return { lack: `${title} is not built yet: not done after ${timeoutMs / 60_000} minutes` };
  return failed ? { lack: `${title} cannot be built: ${reasonOf(stderr || shortMessage || '')}` } : { path };
}

/** Runs with the lock: another process may have built it meanwhile. The program gets its name when it is complete. */
const buildOnce = '[ -e "$0" ] || { nice -n 19 "$@" && mv "$0.part" "$0"; }';

/** The line with the cause in the output of Go. */
export function reasonOf(output: string): string {
  const lines = output.split('\n').map((line) => line.trim());
  const causes = [/no space left on device/, /dial tcp|no such host|Forbidden|Not Found|timeout/, /^go: |: /];
  const found = causes.map((cause) => lines.find((line) => cause.test(line))).find((line) => line !== undefined);
  return found ?? (lines.find((line) => line !== '') || 'Go gave no reason');
}
