# One machine for the runbooks, in network, mount and process namespaces of its own: changes under /etc, /root, /srv, /var and /media
# are discarded when it ends. $1: the checkout; $2: the blocks of a runbook as one script, and the directory of the log; $3: the programs.
set -eu
checkout=$1
programs=$3
mount --make-rprivate /
stage=$(dirname "$2")/stage
mkdir "$stage"
mount -t tmpfs tmpfs "$stage"
mount -t tmpfs tmpfs /run
for place in etc srv var media; do
  mkdir -p "$stage/$place/upper" "$stage/$place/work"
  mount -t overlay overlay -o "lowerdir=/$place,upperdir=$stage/$place/upper,workdir=$stage/$place/work" "/$place"
done
chmod 755 "$stage"/*/upper
rm -rf /etc/sluice /var/lib/sluice
# An empty home: removing one file by file takes minutes where it holds a module cache.
mkdir "$stage/root"
mount --bind "$stage/root" /root
mkdir -p /root/.ssh /var/lib/kubelet
ip link set lo up
ip address add 192.0.2.1/24 dev lo

export HOME=/root LC_ALL=C TZ=UTC STAGE="$stage" LOG="$(dirname "$2")/log"
export GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=alice GIT_AUTHOR_EMAIL=alice@example.com GIT_COMMITTER_NAME=alice GIT_COMMITTER_EMAIL=alice@example.com
export PATH="$checkout/test/runbooks/stand-ins:$programs:/usr/sbin:/usr/bin:/sbin:/bin"

# The repository of rules, and a second change that is merged and not yet released.
git init -q --bare -b main /srv/rules.git
git clone -q /srv/rules.git /root/rules 2>/dev/null
cp -r "$checkout/examples/05-dual-stack/out" /root/rules/rendered
rm -f /root/rules/rendered/.sluice-complete
cd /root/rules
# A namespace cannot set the values of the whole machine.
sed -i '/nf_conntrack_max/d' rendered/profiles/*/base/sysctl.conf
sed -i '/conntrackHashSize/d' rendered/nodes/*/node.yaml
git add -A && git commit -q -m 'the first rules' && git push -q origin HEAD:main
(
  cp -r /root/rules "$STAGE/other" && cd "$STAGE/other"
  sed -i 's/30050/30051/g' rendered/profiles/default/services/shop/web.iptables rendered/profiles/default/services/shop/web.ip6tables
  git commit -q -a -m 'web gets another node port' && git push -q origin HEAD:main
)
cd /root
exec bash "$2"
