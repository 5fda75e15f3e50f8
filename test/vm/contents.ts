/**
 * The contents of the guest's root, besides the checkout: programs of this machine with the libraries that they load, so that guest
 * and machine run the same versions. Everything else is busybox.
 */

/** The Debian packages of the programs: what to install where one is missing. */
export const programs = {
  'busybox-static': ['busybox'],
  'qemu-system-x86': ['qemu-system-x86_64'],
  bash: ['bash'],
  conntrack: ['conntrack'],
  coreutils: ['cp', 'env', 'sleep', 'stdbuf', 'timeout'],
  // The shell of busybox would run its own applets instead of programs of the same names.
  dash: ['dash'],
  e2fsprogs: ['mkfs.ext4'],
  git: ['git'],
  ipset: ['ipset'],
  ipvsadm: ['ipvsadm'],
  iproute2: ['ip', 'ss'],
  iptables: ['xtables-nft-multi', 'xtables-legacy-multi'],
  nftables: ['nft'],
  procps: ['sysctl'],
  'util-linux': ['flock', 'mount', 'umount', 'nsenter', 'unshare', 'setpriv'],
} as const satisfies Record<string, readonly string[]>;

/** Programs that are needed on the machine only. */
export const notInGuest: ReadonlySet<string> = new Set(['qemu-system-x86_64', 'mkfs.ext4']);

/** Names that are links to another program, as Debian's alternatives make them. */
export const links: Readonly<Record<string, string>> = Object.fromEntries([
  ['xtables-monitor', 'xtables-nft-multi'],
  ...['iptables', 'ip6tables'].flatMap((tool) =>
    ['', '-save', '-restore'].flatMap((verb) => [
      [`${tool}-nft${verb}`, 'xtables-nft-multi'],
      [`${tool}-legacy${verb}`, 'xtables-legacy-multi'],
      [`${tool}${verb}`, 'xtables-nft-multi'],
    ]),
  ),
]);

/** Folders of the machine that programs load from at run time. */
export const folders = ['/usr/lib/x86_64-linux-gnu/xtables', '/usr/libexec/coreutils'] as const;

/** Files that programs need; missing ones are left out. */
export const files = ['/etc/protocols', '/etc/services', '/etc/iproute2/rt_tables', '/etc/ethertypes'] as const;

/** Modules that the first program of the guest loads before its disks appear. The kernel loads all others on demand. */
export const bootModules = ['virtio_pci', 'virtio_blk', 'overlay'] as const;

/** Parts of the checkout that the guest does not need: compilers and linters, 170 MB. */
export const notInCheckout =
  /^(?:@biomejs|@typescript\+|typescript@|@oxlint|oxlint|@kubernetes\+client-node|@vitest\+coverage|@babel)/;
