import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { execaSync } from 'execa';
import { cacheFolder } from '../parity/build.ts';
import { bootModules, files, folders, links, notInCheckout, notInGuest, programs } from './contents.ts';

/** The files that a guest boots from. */
export interface Image {
  readonly kernel: string;
  readonly initrd: string;
  /** The root disk, read-only: programs, modules and node_modules. */
  readonly root: string;
}

/** The kernels of guests, by the package of Debian 12 that depends on its newest build. */
const kernels = { '6.1': 'linux-image-cloud-amd64', '6.12': 'linux-image-6.12-cloud-amd64' } as const;
export type GuestKernel = keyof typeof kernels;

const checkout = join(import.meta.dirname, '..', '..');
export const cache = join(cacheFolder, 'vm');
const path = '/usr/sbin:/usr/bin:/sbin:/bin';

/**
 * The reason why no guest can run here, with a remedy; undefined if one can.
 * Even emulation of the machine's own architecture is slow.
 */
export function whyNoGuest(kernel: GuestKernel = '6.1'): string | undefined {
  if (process.arch !== 'x64') return `the guest is built for x64, this machine is ${process.arch}`;
  const missing = Object.entries(programs).filter(([, names]) => names.some((name) => find(name) === undefined));
  if (missing.length > 0) return `install these Debian packages: ${missing.map(([name]) => name).join(', ')}`;
  return kernelPackage(kernel) === undefined ? `no package ${kernels[kernel]} is available: apt-get update` : undefined;
}

/**
 * The image for this checkout, from the cache when none of its parts has changed.
 * @throws when a Debian package cannot be fetched or a tool fails
 */
export function prepareImage(kernel: GuestKernel = '6.1'): Image {
  const name = kernelPackage(kernel) as string;
  const made = join(cache, `${kernel}-${digestOfParts(name)}`);
  const image = { kernel: join(made, 'vmlinuz'), initrd: join(made, 'initrd'), root: join(made, 'root.img') };
  if (existsSync(made)) return image;
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, 'new-'));
  try {
    build(work, name);
    // Another process may have made the same image meanwhile.
    if (!existsSync(made)) renameSync(work, made);
    removeOldImages(made, kernel);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  return image;
}

/** Removes old images, but for those of other kernels; those in progress (`new-…`) belong to another process. */
function removeOldImages(made: string, kernel: GuestKernel): void {
  const others = Object.keys(kernels).filter((one) => one !== kernel);
  const kept = ['new', 'user-mode', ...others].map((one) => `${one}-`);
  for (const name of readdirSync(cache)) {
    if (join(cache, name) !== made && !kept.some((prefix) => name.startsWith(prefix)))
      rmSync(join(cache, name), { recursive: true, force: true });
  }
}

/** The digest of everything that determines the image. */
function digestOfParts(kernel: string): string {
  const hash = createHash('sha256').update(kernel);
  for (const name of ['image.ts', 'contents.ts', 'init.sh', 'initrd.sh'])
    hash.update(readFileSync(join(import.meta.dirname, name)));
  hash.update(readFileSync(join(checkout, 'pnpm-lock.yaml')));
  for (const name of Object.values(programs).flat()) hash.update(readFileSync(find(name) ?? '/dev/null'));
  return hash.digest('hex').slice(0, 16);
}

/** The package of the newest build, such as linux-image-6.1.0-56-cloud-amd64. */
function kernelPackage(kernel: GuestKernel): string | undefined {
  const { stdout } = execaSync('apt-cache', ['depends', kernels[kernel]], {
    reject: false,
    env: { LC_ALL: 'C' },
  });
  return /Depends: (linux-image-[-.+\w]+-cloud-amd64)$/m.exec(stdout)?.[1];
}

function build(work: string, kernel: string): void {
  const staging = mkdtempSync(join(tmpdir(), 'sluice-guest-'));
  try {
    const release = unpackKernel(work, staging, kernel);
    writeInitrd(work, join(staging, 'root', 'lib', 'modules', release));
    fillRoot(join(staging, 'root'));
    makeDisk(join(work, 'root.img'), join(staging, 'root'), 700);
  } finally {
    rmSync(staging, { recursive: true, force: true });
  }
}

/** Unpacks the package of a kernel without installing it. @returns its release, such as 6.1.0-56-cloud-amd64 */
function unpackKernel(work: string, staging: string, name: string): string {
  const release = name.replace('linux-image-', '');
  const download = join(staging, 'download');
  mkdirSync(download);
  execaSync('apt-get', ['download', '-qq', name], { cwd: download });
  const deb = join(download, readdirSync(download)[0] as string);
  execaSync('dpkg-deb', ['-x', deb, join(staging, 'kernel')]);
  cpSync(join(staging, 'kernel', 'boot', `vmlinuz-${release}`), join(work, 'vmlinuz'));
  const modules = join(staging, 'root', 'lib', 'modules');
  mkdirSync(modules, { recursive: true });
  renameSync(join(staging, 'kernel', 'lib', 'modules', release), join(modules, release));
  // Newer kernels have compressed modules, which busybox does not load.
  const compressed = globSync('**/*.ko.xz', { cwd: join(modules, release) });
  if (compressed.length > 0) execaSync('busybox', ['unxz', ...compressed], { cwd: join(modules, release) });
  execaSync('busybox', ['depmod', '-b', join(staging, 'root'), release]);
  return release;
}

/** The initrd, which finds the disks: busybox, a few modules, and initrd.sh. */
function writeInitrd(work: string, modules: string): void {
  const root = mkdtempSync(join(tmpdir(), 'sluice-initrd-'));
  try {
    for (const name of ['bin', 'modules', 'lower', 'rw', 'project', 'newroot', 'dev', 'proc'])
      mkdirSync(join(root, name));
    cpSync(find('busybox') as string, join(root, 'bin', 'busybox'));
    cpSync(join(import.meta.dirname, 'initrd.sh'), join(root, 'init'));
    chmodSync(join(root, 'init'), 0o755);
    const order = bootModules.flatMap((name) => dependenciesOf(name, modules));
    for (const [index, file] of [...new Set(order)].entries()) {
      cpSync(join(modules, file), join(root, 'modules', `${String(index).padStart(2, '0')}.ko`));
    }
    const list = execaSync('find', ['.'], { cwd: root }).stdout;
    execaSync('busybox', ['cpio', '-o', '-H', 'newc'], {
      cwd: root,
      input: list,
      stdout: { file: join(work, 'initrd') },
    });
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** The file of a module, after those of its dependencies in modules.dep; none if the kernel contains it. */
function dependenciesOf(name: string, modules: string): readonly string[] {
  if (readFileSync(join(modules, 'modules.builtin'), 'utf8').includes(`/${name}.ko\n`)) return [];
  const dep = readFileSync(join(modules, 'modules.dep'), 'utf8');
  const line = dep.split('\n').find((one) => one.split(':')[0]?.endsWith(`/${name}.ko`));
  if (line === undefined) throw new Error(`Cannot build the guest: its kernel has no module ${name}`);
  const [file = '', needs = ''] = line.split(':');
  // modules.dep names the nearest dependency first.
  return [
    ...needs
      .trim()
      .split(' ')
      .filter((need) => need !== '')
      .toReversed(),
    file,
  ];
}

/** Programs with their libraries, busybox for the rest, node and the packages of the checkout. */
function fillRoot(root: string): void {
  const there = [
    'usr/bin',
    'usr/sbin',
    'usr/lib',
    'etc',
    'proc',
    'sys',
    'dev',
    'run',
    'tmp',
    'root',
    'var/lib',
    'sluice',
    'base',
    'project',
    'disk',
  ];
  for (const name of there) mkdirSync(join(root, name), { recursive: true });
  renameSync(join(root, 'lib', 'modules'), join(root, 'usr', 'lib', 'modules'));
  rmSync(join(root, 'lib'), { recursive: true });
  for (const [name, target] of [
    ['bin', 'usr/bin'],
    ['sbin', 'usr/sbin'],
    ['lib', 'usr/lib'],
    ['lib64', 'usr/lib64'],
  ] as const) {
    symlinkSync(target, join(root, name));
  }
  const names = Object.values(programs)
    .flat()
    .filter((name) => !notInGuest.has(name));
  for (const source of [...names.map((name) => find(name) as string), ...folders.flatMap(filesOf)]) {
    copy(source, root);
    copyLibraries(source, root);
  }
  link(join(root, 'usr', 'bin', 'sh'), 'dash');
  for (const [name, target] of Object.entries(links)) link(join(root, 'usr', 'sbin', name), target);
  cpSync(nodeProgram(), join(root, 'usr', 'bin', 'node'));
  copyLibraries(nodeProgram(), root);
  for (const applet of execaSync('busybox', ['--list']).stdout.split('\n')) {
    const taken = ['bin', 'sbin'].some((place) => existsSync(join(root, 'usr', place, applet)));
    if (!taken && applet !== '') link(join(root, 'usr', 'bin', applet), 'busybox');
  }
  // The kernel runs this path to load a module.
  link(join(root, 'usr', 'sbin', 'modprobe'), '../bin/busybox');
  for (const file of files) if (existsSync(file)) copy(file, root);
  writeFileSync(
    join(root, 'etc', 'passwd'),
    'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n',
  );
  writeFileSync(join(root, 'etc', 'group'), 'root:x:0:\nnogroup:x:65534:\n');
  writeFileSync(join(root, 'etc', 'hosts'), '127.0.0.1 localhost\n::1 localhost\n');
  cpSync(join(import.meta.dirname, 'init.sh'), join(root, 'usr', 'sbin', 'init'));
  chmodSync(join(root, 'usr', 'sbin', 'init'), 0o755);
  const packages = join(root, 'base', 'node_modules');
  copyPackages(packages);
  for (const addon of globSync('.pnpm/*/node_modules/**/*.node', { cwd: packages })) {
    copyLibraries(join(packages, addon), root);
  }
}

function copyPackages(to: string): void {
  const from = join(checkout, 'node_modules');
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) {
    if (name !== '.pnpm') cpSync(join(from, name), join(to, name), { recursive: true, verbatimSymlinks: true });
  }
  for (const name of readdirSync(join(from, '.pnpm'))) {
    if (notInCheckout.test(name) || name.startsWith('node-linux-')) continue;
    cpSync(join(from, '.pnpm', name), join(to, '.pnpm', name), { recursive: true, verbatimSymlinks: true });
  }
}

/** The Node that runs this process. */
export function nodeProgram(): string {
  return realpathSync(process.execPath);
}

function filesOf(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : [];
}

function copyLibraries(source: string, root: string): void {
  const { stdout } = execaSync('ldd', [source], { reject: false });
  for (const [, library] of stdout.matchAll(/(?:=> )?(\/\S+) \(0x/g)) copy(library as string, root);
}

/** Copies a file, through any links, to the same path below `root`. */
function copy(source: string, root: string): void {
  // /lib and /bin are links into /usr on both sides.
  const target = join(root, source.replace(/^\/(bin|sbin|lib|lib64)\//, '/usr/$1/'));
  if (existsSync(target)) return;
  mkdirSync(dirname(target), { recursive: true });
  cpSync(realpathSync(source), target, { recursive: true, verbatimSymlinks: true });
}

function link(at: string, target: string): void {
  rmSync(at, { force: true });
  symlinkSync(target, at);
}

/** Makes an ext4 image of a folder. @param megabytes its size; unused space takes none on the disk */
export function makeDisk(image: string, from: string, megabytes: number): void {
  rmSync(image, { force: true });
  execaSync(
    'mkfs.ext4',
    ['-q', '-F', '-O', '^has_journal', '-E', 'root_owner=0:0', '-d', from, image, `${megabytes}M`],
    { env: { PATH: path } },
  );
}

/** The path of a program; undefined if it is not installed. */
export function find(program: string): string | undefined {
  return path
    .split(':')
    .map((place) => join(place, program))
    .find((file) => existsSync(file));
}
