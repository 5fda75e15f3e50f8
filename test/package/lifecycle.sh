# The life of the Debian package in a clean root, as root in namespaces of its own. $1: the root; $2, $3: the package and a newer one, $4: the archive, inside it.
# After each step /seen/STEP.* has the state: rules in the kernel, calls of systemctl, files, the state of the package.
set -eu
root=$1
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/run/systemd/system" "$root/seen"

inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
see() {
  { inside iptables-save; inside ip6tables-save; inside ipset save; } | grep -v '^#' >"$root/seen/$1.rules"
  inside dpkg-query -W -f '${Status} ${Version}' sluice >"$root/seen/$1.package" 2>/dev/null || :
  (cd "$root" && stat -c '%a %U %G' var/lib/sluice/receipt_key && sha256sum <var/lib/sluice/receipt_key) >"$root/seen/$1.key" 2>/dev/null || :
  (cd "$root" && find etc/sluice var/lib/sluice usr/bin/sluiced usr/lib/systemd/system/sluiced.service 2>/dev/null | sort) >"$root/seen/$1.files"
  mv "$root/calls" "$root/seen/$1.calls" 2>/dev/null || : >"$root/seen/$1.calls"
}

printf '#!/bin/sh\necho "$*" >>/calls\n' >"$root/usr/bin/systemctl"
chmod 755 "$root/usr/bin/systemctl"
inside ipset create SLUICE-TEST hash:ip
inside iptables-restore <<'RULES'
*nat
:SLU-SVC-NPX46M4PTMTKRN6Y - [0:0]
-A OUTPUT -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j SLU-SVC-NPX46M4PTMTKRN6Y
-A SLU-SVC-NPX46M4PTMTKRN6Y -p tcp -j DNAT --to-destination 10.244.1.5:6443
COMMIT
RULES
see before
inside dpkg -i "$2" >"$root/seen/installed.output" 2>&1
see installed
inside sluiced version -o json >"$root/seen/version"
for program in sluice sluiced; do
  inside bash -c ". /usr/share/bash-completion/completions/$program; COMP_WORDS=($program ver) COMP_CWORD=1; _$program; echo $program: \${COMPREPLY[*]}"
done >"$root/seen/completed"
cp "$root/usr/share/sluice/sluiced.yaml" "$root/etc/sluice/sluiced.yaml"
echo journal >"$root/var/lib/sluice/journal"
inside dpkg -i "$3" >/dev/null 2>&1
see upgraded
inside dpkg --verify sluice >"$root/seen/verify"
inside dpkg -r sluice >/dev/null 2>&1
see removed
inside dpkg -i "$2" >/dev/null 2>&1
see again
inside dpkg -P sluice >/dev/null 2>&1
see purged

# The archive, as the page inside it says; neither zstd nor systemd-tmpfiles is in this root.
tar --zstd -xf "$root$4" -C "$root/root"
archive=$(cd "$root/root" && echo sluice-*)
inside sh -c "cp -a /root/$archive/usr / && install -d -m 0755 /etc/sluice && install -d -m 0700 /var/lib/sluice"
cp "$root/usr/share/sluice/sluiced.yaml" "$root/etc/sluice/sluiced.yaml"
inside sluiced keygen >"$root/seen/archive.line"
see archive
inside sh -c "xargs rm <'/root/$archive/MANIFEST'"
see archive-removed

# A root in which an image is built: nothing is mounted, /proc included.
umount "$root/proc" "$root/run"
rm -r "$root/etc/sluice" "$root/var/lib/sluice"
inside dpkg -i "$2" >"$root/seen/bare.output" 2>&1
for program in sluice sluiced; do inside "$program" --version; done >"$root/seen/bare.versions" 2>&1
see bare
