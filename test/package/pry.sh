#!/bin/sh
# Attempts everything that the hardening of a unit forbids; prints each attempt that succeeds, and `end` at the end. None does harm where it is permitted.
try() {
  name=$1
  shift
  if "$@" >/dev/null 2>&1; then echo "$name"; fi
}
try 'write programs' touch /usr/bin/pried
try 'write configuration' touch /etc/pried
try 'read home directories' cat /root/secret
try 'see temporary files of other users' cat /tmp/secret
try 'create a network namespace' unshare --net true
try 'mount' mount -t tmpfs tmpfs /run/lock
try 'become another user' setpriv --reuid 65534 --clear-groups true
try 'change the owner of files' sh -c 'touch /run/pried && chown 65534 /run/pried'
try 'make a setuid program' install -m 4755 /bin/true /run/pried.suid
try 'create a device' mknod /run/pried.device c 1 3
try 'change the name of the machine' hostname node-a
try 'create a cgroup' mkdir /sys/fs/cgroup/pried
try 'pretend an older kernel' setarch --uname-2.6 true
echo end
