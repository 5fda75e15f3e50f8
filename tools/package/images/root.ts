/** The root of the image of nodes: both programs, and each tool that `sluiced` starts, from packages of Debian. */
import {
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { type Arch, architectures } from '../node.ts';
import type { DebianPackage } from './fetch.ts';
import { copyFiles, librariesOf, type Pool } from './pool.ts';

/** The packages of the files below, fetched with all that they need. */
export const packageNames = [
  'base-files',
  'ca-certificates',
  'conntrack',
  'coreutils',
  'dash',
  'git',
  'ipset',
  'iproute2',
  'iptables',
  'ipvsadm',
  'libstdc++6',
  'mount',
  'nftables',
  'openssh-client',
  'util-linux',
] as const;

/** What `sluiced` looks for on a node, and what the containers of deploy/sluiced.yaml start. */
const files = [
  ...['iptables', 'ip6tables'].flatMap((name) =>
    ['nft', 'legacy'].flatMap((store) => ['', '-save', '-restore'].map((end) => `usr/sbin/${name}-${store}${end}`)),
  ),
  ...['xtables-monitor', 'conntrack', 'ipset', 'ipvsadm', 'nft'].map((name) => `usr/sbin/${name}`),
  ...['ip', 'ss', 'mount', 'unshare', 'flock', 'prlimit', 'setpriv', 'timeout', 'stdbuf', 'sync'].map(inBin),
  'usr/libexec/coreutils/libstdbuf.so',
  ...['git', 'ssh', 'ssh-keygen', 'sh', 'cat', 'chmod', 'mkdir', 'rm', 'sleep'].map(inBin),
  'usr/lib/git-core/git-remote-https',
  'usr/lib/os-release',
] as const;

/** Symbolic links: path → target. Debian's maintainer scripts make the first six, as alternatives. */
const links: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ['iptables', 'ip6tables'].flatMap((name) =>
      ['', '-save', '-restore'].map((end) => [`usr/sbin/${name}${end}`, `${name}-nft${end}`]),
    ),
  ),
  'usr/lib/git-core/git': '../../bin/git',
  'etc/os-release': '../usr/lib/os-release',
  bin: 'usr/bin',
  sbin: 'usr/sbin',
  lib: 'usr/lib',
};

/** Of the installed files: no units, manual pages and completions. Messages name pages and the commented config. */
const ours = ['usr/bin', 'usr/lib/sluice', 'usr/share/sluice', 'usr/share/doc/sluice'] as const;

/** Folders that exist without a file: mount points of runtimes and of the pod. */
const emptyFolders = ['dev', 'etc/sluice', 'proc', 'run', 'sys', 'tmp', 'var/lib/sluice', 'var/lib/sluice-releases'];

function inBin(name: string): string {
  return `usr/bin/${name}`;
}

/**
 * Fills a folder with the root of the image.
 * @param tree the installed files, as `layOut` made them for this architecture
 * @returns the packages that have a file in it, by name
 */
export function layOutNodeImage(tree: string, arch: Arch, pool: Pool, folder: string): readonly DebianPackage[] {
  const { gnu } = architectures[arch];
  for (const path of ours) cpSync(join(tree, path), join(folder, path), { recursive: true, verbatimSymlinks: true });
  const copied = new Set<string>();
  // Tools of iptables load their modules by name.
  const modules = globSync(`usr/lib/${gnu}/xtables/*.so`, { cwd: pool.root }).toSorted();
  copyFiles(pool, [...files, ...modules], folder, copied);
  const elves = elfFiles(folder);
  const libraries = librariesOf(pool, elves, [`usr/lib/${gnu}`, 'usr/lib'], new Set(['libatomic.so.1']));
  copyFiles(pool, libraries, folder, copied);
  const used = usedPackages(pool, copied);
  for (const { name, control } of used) {
    copyFiles(pool, [`usr/share/doc/${name}/copyright`], folder, copied);
    // Scanners of images read the versions here.
    write(folder, `var/lib/dpkg/status.d/${name}`, control);
  }
  copyFiles(pool, globSync('usr/share/common-licenses/*', { cwd: pool.root }).toSorted(), folder, copied);
  write(folder, 'etc/ssl/certs/ca-certificates.crt', certificates(pool));
  write(folder, 'etc/passwd', 'root:x:0:0::/root:/bin/sh\n');
  write(folder, 'etc/group', 'root:x:0:\n');
  write(folder, 'etc/nsswitch.conf', 'passwd: files\ngroup: files\nhosts: files dns\n');
  const library64 = existsSync(join(folder, 'usr/lib64')) ? { lib64: 'usr/lib64' } : {};
  for (const [path, target] of Object.entries({ ...links, ...library64 })) link(folder, path, target);
  for (const path of emptyFolders) mkdirSync(join(folder, path), { recursive: true });
  return used;
}

/** The absolute paths of all ELF files below a folder. */
function elfFiles(folder: string): readonly string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => lstatSync(path).isFile() && readFileSync(path).subarray(0, 4).toString('latin1') === '\x7fELF')
    .toSorted();
}

/** Certificates are of a package whose installation joins them into one file. */
function usedPackages(pool: Pool, copied: ReadonlySet<string>): readonly DebianPackage[] {
  const owners = new Set([...copied].map((path) => pool.owners.get(path)));
  return pool.packages.filter((one) => owners.has(one) || one.name === 'ca-certificates');
}

function certificates(pool: Pool): string {
  const names = globSync('usr/share/ca-certificates/mozilla/*.crt', { cwd: pool.root }).toSorted();
  return names.map((name) => `${readFileSync(join(pool.root, name), 'utf8').trimEnd()}\n`).join('');
}

function write(folder: string, path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function link(folder: string, path: string, target: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  symlinkSync(target, join(folder, path));
}
