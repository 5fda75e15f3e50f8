# Boots the Debian below $1 with its own systemd as process 1, in namespaces of its own, on the kernel of this machine. What it writes goes
# into $2/disk, where it is at the next boot. $3 names its cgroup.
# Whoever started this need only end: the machine ends with it, at once, as when the power goes. Rules, addresses and sysctls of the network end too.
set -eu
debian=$1 folder=$2 name=$3
if [ "${4:-}" != inside ]; then
  cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
  mkdir -p "$cgroups/$name"
  echo $$ >"$cgroups/$name/cgroup.procs"
  exec setpriv --pdeathsig KILL unshare --net --uts --ipc --cgroup --pid --mount --fork --kill-child sh "$0" "$debian" "$folder" "$name" inside
fi

mount --make-rprivate /
mkdir -p "$folder/work" "$folder/root"
mount -t overlay overlay -o "lowerdir=$debian,upperdir=$folder/disk,workdir=$folder/work" "$folder/root"
cd "$folder/root"
# What belongs to the whole machine can be read here and not written, as in any container; sysctls of the network are the machine's own.
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
for device in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0; do
  numbers=${device#*:}
  mknod -m 666 "dev/${device%%:*}" c "${numbers%:*}" "${numbers#*:}"
done
if [ -e proc/sysrq-trigger ]; then mount --bind dev/null proc/sysrq-trigger; fi
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${stream%:*}" "dev/${stream#*:}"; done

# The pods of the bundles in these tests, and the ways to all VIPs.
ip link set lo up
for number in 2 3 4 5; do ip address add "10.244.0.$number/32" dev lo; done
ip route add 10.96.0.0/12 dev lo

mkdir -p before
pivot_root . before
umount -l /before
# No module, clock or port of the real machine is in its reach.
exec env -i container=sluice-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  setpriv --bounding-set=-sys_module,-sys_time,-sys_boot,-sys_rawio,-syslog /lib/systemd/systemd --unit=multi-user.target --log-target=journal </dev/null
