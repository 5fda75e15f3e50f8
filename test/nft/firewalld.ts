import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { type DebianRoot, debianRoot } from './debian.ts';

/** The real firewalld of Debian 13, in a directory that is its root. */
export function firewalldRoot(): DebianRoot {
  const found = debianRoot('firewalld', ['firewalld', 'dbus-daemon', 'python3-nftables', 'nftables']);
  if ('lack' in found) return found;
  const { root } = found;
  if (existsSync(`${root}/etc/group`)) return found;
  mkdirSync(`${root}/run`, { recursive: true });
  // The packages are unpacked, not configured.
  writeFileSync(`${root}/etc/passwd`, 'root:x:0:0::/root:/bin/sh\nmessagebus:x:100:100::/:/bin/false\n');
  writeFileSync(`${root}/etc/group`, 'root:x:0:\nmessagebus:x:100:\n');
  return found;
}

/** Shell text that starts firewalld in this mount namespace, reloads it in both ways, and ends it. */
export const reloadFirewalld = (root: string): string => `
  for folder in proc sys dev; do mount --rbind /$folder ${root}/$folder; done
  mount -t tmpfs tmpfs ${root}/run && mkdir ${root}/run/dbus
  bus=$(chroot ${root} /usr/bin/dbus-daemon --system --fork --print-pid 2>/dev/null)
  chroot ${root} /usr/sbin/firewalld --nofork --nopid >/dev/null 2>&1 &
  until chroot ${root} /usr/bin/firewall-cmd --state >/dev/null 2>&1; do sleep 0.2; done
  chroot ${root} /usr/bin/firewall-cmd --reload
  chroot ${root} /usr/bin/firewall-cmd --complete-reload
  nft list tables | grep firewalld
  kill $! $bus
`;
