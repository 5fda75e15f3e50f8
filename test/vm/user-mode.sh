#!/bin/sh
# The first program of a kernel in user mode, on the read-only root of its machine: memory goes over that root, then the agent starts. When it
# ends, so does the kernel. Its command line names SLUICE_CHECKOUT, SLUICE_PROGRAMS, SLUICE_CACHE, SLUICE_MODULES and SLUICE_NODE, paths of the machine.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
release=$(uname -r)
mount -t proc proc /proc
/bin/busybox insmod "$SLUICE_MODULES/kernel/fs/overlayfs/overlay.ko"
mount -t tmpfs -o size=80% tmpfs /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
cd /mnt/root || exit
mkdir -p sluice "lib/modules/$release"
mount --bind "$SLUICE_MODULES" "lib/modules/$release"
mkdir -p /mnt/checkout/upper /mnt/checkout/work
mount -t overlay -o "lowerdir=$SLUICE_CHECKOUT,upperdir=/mnt/checkout/upper,workdir=/mnt/checkout/work" overlay sluice
mkdir -p sluice/programs sluice/cache/sluice-parity
mount --bind "$SLUICE_PROGRAMS" sluice/programs
mount --bind "$SLUICE_CACHE" sluice/cache/sluice-parity
# Its nf_tables has neither IPv4 nor IPv6: all tools are those of the legacy store.
for tool in iptables ip6tables; do
  for verb in '' -save -restore; do ln -sf xtables-legacy-multi "usr/sbin/$tool$verb"; done
done
rm -f usr/bin/node
touch usr/bin/node
mount --bind "$SLUICE_NODE" usr/bin/node
# The kernel runs this path to load a module.
ln -sf /bin/busybox usr/sbin/modprobe
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs dev dev
mkdir -p dev/pts dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
# Not `chroot`: who enters a namespace of mounts by another process would get the root before it.
pivot_root . mnt
exec chroot . /bin/sh -c '
  umount -l /mnt
  modprobe ipv6
  ip link set lo up
  stty -F /dev/ttyS0 raw -echo
  cd /sluice
  node test/vm/agent.ts /dev/ttyS0 >/dev/console 2>&1
  sync
  poweroff -f || halt -f'
