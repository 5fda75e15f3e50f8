#!/bin/sh
# The guest's init: mounts the usual file systems, then starts the agent. When the agent ends, so does the guest.
export PATH=/usr/sbin:/usr/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
modprobe virtio_console
ip link set lo up
# The checkout: its files over its packages, with memory on top.
mkdir -p /run/sluice-rw/upper /run/sluice-rw/work
mount -t overlay -o lowerdir=/project:/base,upperdir=/run/sluice-rw/upper,workdir=/run/sluice-rw/work overlay /sluice
cd /sluice
node /sluice/test/vm/agent.ts >/dev/console 2>&1
sync
poweroff -f
