/** The layer of the image: `sluice`, the programs that it starts, their libraries, and all licences. */
import { existsSync, mkdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { copyrightFiles, packagesOf } from './copyrights.ts';
import { PackageError, run } from './run.ts';
import { copyAs, licences } from './tree.ts';

/** `watch` and revisions need git, signatures ssh-keygen, pipeline jobs a shell. Taken from the Debian system of the build. */
const programs = [
  '/usr/bin/git',
  '/usr/lib/git-core/git-remote-http',
  '/usr/bin/ssh',
  '/usr/bin/ssh-keygen',
  '/usr/bin/dash',
  '/usr/bin/cat',
  '/usr/bin/cp',
  '/usr/bin/mkdir',
  '/usr/bin/rm',
] as const;

/** The Debian packages of these programs, for the hint when one is missing. */
const debianPackages = 'git openssh-client dash coreutils ca-certificates';

/** Symbolic links: path → target. */
const links = {
  'usr/lib/git-core/git-remote-https': 'git-remote-http',
  'usr/lib/git-core/git': '../../bin/git',
  'usr/bin/sh': 'dash',
  bin: 'usr/bin',
  lib: 'usr/lib',
  lib64: 'usr/lib64',
} as const;

/** The user of the image; deploy/watch.yaml has the same. */
export const user = 65_532;

/** World-writable folders, for pipeline jobs under any user. */
export const writable = ['tmp', 'work'] as const;

const certificates = 'etc/ssl/certs/ca-certificates.crt';
/** Its installation generates that file, so dpkg does not list it. */
const certificatesPackage = 'ca-certificates';

/**
 * Fills a folder with the root of the image.
 * @param executables the folder that `buildExecutable` filled for the architecture of the build machine
 */
export function layOutImage(executables: string, folder: string): void {
  const missing = [...programs, `/${certificates}`].filter((path) => !existsSync(path));
  if (missing.length > 0) {
    throw new PackageError(
      `Cannot build the image: ${missing.join(', ')} not found`,
      `apt-get install ${debianPackages}`,
    );
  }
  copyAs(join(executables, 'bin/sluice'), join(folder, 'usr/bin/sluice'), 0o755);
  // Beside the other libraries: a path relative to the executable works only with /proc.
  copyAs(join(executables, 'lib/sluice/libatomic.so.1'), join(folder, 'usr/lib/libatomic.so.1'), 0o644);
  for (const path of programs) copyAs(realpathSync(path), join(folder, path), 0o755);
  const libraries = librariesOf([join(executables, 'bin/sluice'), ...programs]);
  for (const path of libraries) copyAs(realpathSync(path), join(folder, inUsr(path)), 0o755);
  copyAs(`/${certificates}`, join(folder, certificates), 0o644);
  copyAs(join(executables, licences), join(folder, 'usr', licences), 0o644);
  const packages = [...packagesOf([...programs, ...libraries]), certificatesPackage];
  for (const [to, from] of Object.entries(copyrightFiles(packages))) copyAs(from, join(folder, to), 0o644);
  write(folder, 'etc/passwd', `root:x:0:0::/:/bin/sh\nsluice:x:${user}:${user}::/work:/bin/sh\n`);
  write(folder, 'etc/group', `root:x:0:\nsluice:x:${user}:\n`);
  write(folder, 'etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n');
  for (const [path, target] of Object.entries(links)) link(folder, path, target);
  for (const path of [...writable, 'proc', 'dev']) mkdirSync(join(folder, path));
}

/** On a system with merged /usr the loader's own path is /lib64. */
const inUsr = (path: string): string => (path.startsWith('/usr/') ? path : join('/usr', path));

function write(folder: string, path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function link(folder: string, path: string, target: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  symlinkSync(target, join(folder, path));
}

/** The loader and all libraries that it loads for these programs. */
function librariesOf(paths: readonly string[]): readonly string[] {
  const printed = run('ldd', paths);
  const found = [...printed.matchAll(/(?:=> |^\s+)(\/\S+) \(0x/gm)].map((match) => match[1] as string);
  return [...new Set(found)].filter((path) => !path.endsWith('libatomic.so.1')).toSorted();
}

/** The name of the Debian system of the build, for the image's annotations. */
export function takenFrom(): string {
  return (/^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8')) ?? [])[1] ?? 'unknown';
}
