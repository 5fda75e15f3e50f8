# Set-up for ./dev: sourced, with the checkout as the current directory. Every step prints what it installs, and why.

pnpm_version=12.21.0
debian_wanted='iptables:iptables-nft-restore iproute2:ip ipset:ipset conntrack:conntrack nftables:nft git:git util-linux:nsenter strace:strace e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs'

say() { printf 'dev: %s\n' "$*" >&2; }
fail() {
  say "$1"
  say "  $2"
  exit 2
}

# Runs a command up to three times: registries and mirrors fail now and then.
retry() {
  for attempt in 1 2 3; do
    if "$@"; then return 0; fi
    if [ "$attempt" -lt 3 ]; then
      say "attempt $attempt of 3 failed: $*; trying again"
      sleep $((attempt * 3))
    fi
  done
  return 1
}

# JavaScript packages, including a current Node. Skipped until the lockfile changes.
install_packages() {
  stamp=node_modules/.setup-lockfile
  if [ -f "$stamp" ] && cmp -s pnpm-lock.yaml "$stamp" && [ -x node_modules/.bin/node ]; then return 0; fi
  command -v npx >/dev/null 2>&1 || fail 'Cannot install the packages: npx not found' 'Install Node.js 20 or newer with npm, such as: apt-get install nodejs npm'
  say "installing the packages of pnpm-lock.yaml with pnpm $pnpm_version, and Node 26 beside them (about 10 s)"
  retry npx -y "pnpm@$pnpm_version" install --frozen-lockfile >&2 ||
    fail 'Cannot install the packages: pnpm failed three times' 'Read its messages above; behind a proxy, set HTTPS_PROXY or npm_config_registry'
  cp pnpm-lock.yaml "$stamp"
}

# The site generator: packages of their own (tools/docs), which nothing else waits for. False when they cannot be installed.
install_site() {
  site_stamp=tools/docs/node_modules/.setup-lockfile
  if cmp -s tools/docs/pnpm-lock.yaml "$site_stamp"; then return 0; fi
  say 'installing the site generator of tools/docs (about 10 s)'
  retry npx -y "pnpm@$pnpm_version" --dir tools/docs install --frozen-lockfile >&2 || return 1
  cp tools/docs/pnpm-lock.yaml "$site_stamp"
}

# The Node that came with the packages. It needs libatomic.so.1, which a minimal Debian does not have.
check_node() {
  if node_modules/.bin/node -e 0 2>/dev/null; then return 0; fi
  install_debian libatomic1 || true
  node_modules/.bin/node -e 0 || fail 'Cannot start Node 26 (node_modules/.bin/node)' 'It needs libatomic.so.1: apt-get install libatomic1'
}

# $@: Debian packages. False when they cannot be installed here.
install_debian() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then return 1; fi
  say "installing Debian packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  { retry apt-get update -qq && retry apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null
}

# Sets $no_kernel to the reason when this machine cannot run kernel tests, otherwise to ''.
prepare_kernel() {
  PATH=$PATH:/usr/sbin:/sbin
  no_kernel=''
  if [ "$(id -u)" != 0 ]; then
    no_kernel='network namespaces need root; run it again with sudo'
    return 0
  fi
  missing=''
  for wanted in $debian_wanted; do
    command -v "${wanted#*:}" >/dev/null 2>&1 || missing="$missing ${wanted%%:*}"
  done
  # shellcheck disable=SC2086 # a list of words
  if [ -n "$missing" ] && ! install_debian $missing; then
    no_kernel="these programs are missing and could not be installed:$missing"
  elif ! unshare --net --mount --pid --fork true 2>/dev/null; then
    no_kernel='this container may not create network, mount and process namespaces (CAP_SYS_ADMIN)'
  fi
}

# The programs of guests (test/vm). Never fatal: without them its tests are skipped with the reason.
prepare_guest() {
  if [ "$(id -u)" != 0 ]; then return 0; fi
  missing=''
  for wanted in qemu-system-x86:qemu-system-x86_64 busybox-static:busybox ipvsadm:ipvsadm e2fsprogs:mkfs.ext4 nftables:nft procps:sysctl; do
    command -v "${wanted#*:}" >/dev/null 2>&1 || missing="$missing ${wanted%%:*}"
  done
  # shellcheck disable=SC2086 # a list of words
  if [ -n "$missing" ] && ! install_debian $missing; then
    say "guests are left out: these could not be installed:$missing"
  elif ! apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1; then
    apt-get update -qq >/dev/null 2>&1 || say 'guests are left out: the list of Debian packages cannot be fetched'
  fi
}

# Further programs of runbooks (test/runbooks). Never fatal: the test of a runbook names a missing one.
prepare_runbooks() {
  if [ "$(id -u)" != 0 ] || command -v rsync >/dev/null 2>&1; then return 0; fi
  install_debian rsync || say 'rsync could not be installed: a runbook will not be tested'
}

# The programs that build and test packages (tools/package, test/package). Never fatal: their tests and tools name a missing one.
prepare_package() {
  if [ "$(id -u)" != 0 ]; then return 0; fi
  missing=''
  for wanted in binutils:strip patchelf:patchelf zstd:zstd dpkg-dev:dpkg-scanpackages rpm:rpmbuild createrepo-c:createrepo_c ruby:ruby gnupg:gpg debootstrap:debootstrap openssh-client:ssh-keygen curl:curl procps:pgrep \
    binutils-aarch64-linux-gnu:aarch64-linux-gnu-strip qemu-user-static:qemu-aarch64-static; do
    command -v "${wanted#*:}" >/dev/null 2>&1 || missing="$missing ${wanted%%:*}"
  done
  [ -e /usr/aarch64-linux-gnu/lib/libatomic.so.1 ] || missing="$missing libatomic1-arm64-cross"
  [ -e /usr/aarch64-linux-gnu/lib/libstdc++.so.6 ] || missing="$missing libstdc++6-arm64-cross"
  # shellcheck disable=SC2086 # a list of words
  if [ -n "$missing" ] && ! install_debian $missing; then
    say "packages cannot be built here: these could not be installed:$missing"
  fi
}
