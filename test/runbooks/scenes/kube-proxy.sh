# A node that kube-proxy serves: its chains and its process. Layout flat has kube-proxy's chains; the state that claims them is deleted.
printf 'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-1\nlayout: flat\nstate: %s/kube-proxy\nsignatures: { policy: none }\n' "$STAGE" >"$STAGE/flat.yaml"
sluiced apply /root/rules/rendered -c "$STAGE/flat.yaml" >/dev/null
rm -r "$STAGE/kube-proxy"
iptables-nft-save >/run/kube-proxy.iptables
ip6tables-nft-save >/run/kube-proxy.ip6tables
setsid bash -c 'exec -a kube-proxy sleep 1000' >/dev/null 2>&1 &
echo $! >/run/kube-proxy.pid
# The key, the release, the package and the config, as in the first installation.
ssh-keygen -q -t ed25519 -N '' -C alice@example.com -f /root/.ssh/releases
cd /root/rules
sluice release rendered --serial auto --source "$(git rev-parse HEAD)" -o /root/release >/dev/null 2>&1
sluice sign /root/release --key /root/.ssh/releases 2>/dev/null
sluice pack /root/release --node node-1 -o /root/node-1.tar.zst >/dev/null 2>&1
install -d -m 0755 /etc/sluice
install -d -m 0700 /var/lib/sluice
echo "alice@example.com namespaces=\"sluice-release\" $(cut -d' ' -f1,2 /root/.ssh/releases.pub)" >/etc/sluice/allowed_signers
printf 'apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-1\ncluster: dual\n' >/etc/sluice/sluiced.yaml
