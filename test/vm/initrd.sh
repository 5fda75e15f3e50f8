#!/bin/busybox sh
# The guest's first program: finds the disks, mounts a tmpfs over the read-only root, and switches to it.
B=/bin/busybox
$B mount -t devtmpfs dev /dev
$B mount -t proc proc /proc
for module in /modules/*.ko; do $B insmod "$module"; done
$B mount -t ext4 -o ro,noload /dev/vda /lower
$B mount -t ext4 -o ro,noload /dev/vdb /project
$B mount -t tmpfs -o size=80% tmpfs /rw
$B mkdir -p /rw/upper /rw/work
$B mount -t overlay -o lowerdir=/lower,upperdir=/rw/upper,workdir=/rw/work overlay /newroot
$B mount --move /project /newroot/project
exec $B switch_root /newroot /usr/sbin/init
