#!/bin/sh
# Tries what the hardening of a unit is to prevent, and says what went well, and that it came to its end. It does nothing that matters where it may.
try() {
  name=$1
  shift
  if "$@" >/dev/null 2>&1; then echo "$name"; fi
}
try 'write programs' touch /usr/bin/pried
try 'write configuration' touch /etc/pried
try 'read home directories' cat /root/secret
try 'see the temporary files of others' cat /tmp/secret
try 'make a network namespace' unshare --net true
try 'mount' mount -t tmpfs tmpfs /run/lock
try 'be somebody else' setpriv --reuid 65534 --clear-groups true
try 'give files away' sh -c 'touch /run/pried && chown 65534 /run/pried'
try 'make a program that runs as its owner' install -m 4755 /bin/true /run/pried.suid
try 'make a device' mknod /run/pried.device c 1 3
try 'change the name of the machine' hostname node-a
try 'make a cgroup' mkdir /sys/fs/cgroup/pried
try 'pretend an older kernel' setarch --uname-2.6 true
echo end
