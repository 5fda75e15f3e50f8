import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { cacheFolder } from '../parity/build.ts';

/** What runs containers on a node. */
export const nodePackages = ['containerd', 'containernetworking-plugins', 'runc'] as const;
/** Static, for images without anything else. */
export const busyboxPackages = ['busybox-static'] as const;
/** What the tests, and kube-proxy, call in a container of agnhost, with everything that it needs. */
export const agnhostPackages = [
  'bash',
  'bind9-dnsutils',
  'conntrack',
  'coreutils',
  'curl',
  'dash',
  'grep',
  'iperf',
  'iproute2',
  'iptables',
  'netcat-openbsd',
  'nftables',
  'procps',
  'sed',
  'socat',
  'wget',
] as const;

/** What nothing at run time reads. */
const unread = ['usr/share/doc', 'usr/share/info', 'usr/share/locale', 'usr/share/man', 'usr/share/bash-completion'];

/**
 * The folder with the files of packages of Debian, from the cache: nothing is installed, and no script of a package runs.
 * @param isWhole with everything that they depend on, as for the root of a container
 * @throws Error where apt cannot fetch them
 */
export async function unpacked(packages: readonly string[], isWhole: boolean): Promise<string> {
  const digest = createHash('sha256')
    .update(`${isWhole} ${packages.join(' ')} ${unread.join(' ')}`)
    .digest('hex');
  const path = join(cacheFolder, `debian-${packages[0]}-${digest.slice(0, 12)}`);
  if (existsSync(path)) return path;
  const part = `${path}-${process.pid}.part`;
  rmSync(part, { recursive: true, force: true });
  const [archives, root] = [join(part, 'archives'), join(part, 'root')];
  for (const folder of [join(archives, 'partial'), root]) mkdirSync(folder, { recursive: true });
  // Without a status everything that they depend on is missing, so that apt fetches it.
  writeFileSync(join(part, 'status'), '');
  const options = [`Dir::State::status=${join(part, 'status')}`, `Dir::Cache::archives=${archives}`];
  const apt = [...options, 'APT::Sandbox::User=root', 'Debug::NoLocking=1'].flatMap((option) => ['-o', option]);
  await (isWhole
    ? execa('apt-get', [...apt, '-y', '--download-only', '--no-install-recommends', 'install', ...packages])
    : execa('apt-get', ['-o', 'APT::Sandbox::User=root', 'download', ...packages], { cwd: archives }));
  for (const file of readdirSync(archives).filter((name) => name.endsWith('.deb')))
    await execa('dpkg', ['-x', join(archives, file), root]);
  for (const folder of unread) rmSync(join(root, folder), { recursive: true, force: true });
  // Another process may have made it meanwhile.
  if (!existsSync(path)) renameSync(root, path);
  rmSync(part, { recursive: true });
  return path;
}
