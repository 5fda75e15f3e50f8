import type { RuleHit } from '../packet/packet.ts';
import { targetOf } from '../rules/words.ts';

/** Programs besides a proxy that write rules on nodes, each with what its rules are for. */
export interface RuleOwner {
  readonly name: string;
  /** A sentence part: `rules of Calico, for network policy`. */
  readonly does: string;
  /** A command that shows why it has its rules. To remove one helps for as long as the owner does not write it again. */
  readonly inspect: string;
  /** It sets the policy of built-in chains of `filter`, or ends them with a rule for all packets, where it has rules in that table. */
  readonly setsPolicy?: boolean;
  /** Bundles have the same rules, so that a comparison has to follow them on both sides. */
  readonly isInBundles?: boolean;
}

/** How an owner is recognised: any one of these is enough. */
interface Signs {
  /** A chain that the rule is in, or jumps to. */
  readonly chain?: RegExp;
  /** A comment of the rule. */
  readonly comment?: RegExp;
  /** A test of the rule, such as an interface that the owner makes. */
  readonly test?: RegExp;
  /** A table of nftables that is the owner's alone. */
  readonly table?: RegExp;
}

/**
 * The table of owners. Names of chains are from the sources of each program: `rules/rule_defs.go` of Calico, `pkg/datapath/iptables` of
 * Cilium, `pkg/controllers/netpol` of kube-router, `libnetwork/drivers/bridge` of Docker, `nftables.py` and `ipXtables.py` of firewalld,
 * `before.rules` of ufw, `cmd/node-cache/app` of NodeLocal DNSCache, `istio-iptables` and the CNI plugin of Istio, `pkg/networkutils` of
 * aws-node, `pkg/agent/route` of Antrea, `pkg/trafficmngr` of Flannel, `kubelet_network_linux.go` of the kubelet, `portmap` of the CNI plugins.
 * Those of the others are in `test/field/wild`.
 */
const owners: readonly (readonly [RuleOwner, Signs])[] = [
  [
    { name: 'Calico', does: 'network policy of pods', inspect: 'kubectl get networkpolicies -A' },
    { chain: /^(?:cali|felix)-/, comment: /^cali:/, table: /^calico$/ },
  ],
  [
    {
      name: 'Cilium',
      does: 'the way of packets between pods and its proxy',
      inspect: 'kubectl get networkpolicies,ciliumnetworkpolicies -A',
    },
    { chain: /^(?:OLD_)?CILIUM_/, comment: /^cilium(?:-feeder)?: /, table: /^cilium/ },
  ],
  [
    { name: 'kube-router', does: 'network policy of pods', inspect: 'kubectl get networkpolicies -A' },
    { chain: /^KUBE-(?:POD-FW|NWPLCY|ROUTER|DEFAULT-NETPOL)/, table: /^kube-router/ },
  ],
  [
    { name: 'Docker', does: 'networks of containers', inspect: 'iptables -S DOCKER-USER', setsPolicy: true },
    { chain: /^DOCKER(?:$|-)/, test: / -[io] (?:docker\d+|br-[0-9a-f]{12}) /, table: /^docker-bridges$/ },
  ],
  [
    { name: 'firewalld', does: 'the firewall of the host', inspect: 'firewall-cmd --list-all-zones', setsPolicy: true },
    {
      chain:
        /^(?:INPUT|FORWARD|PREROUTING|POSTROUTING|OUTPUT)_(?:direct|(?:(?:IN|OUT)_)?ZONES(?:_SOURCE)?|POLICIES_(?:pre|post))$|^(?:IN|FWDI|FWDO|FWD|PRE|POST|PRE)_(?:public|trusted|internal|external|dmz|drop|block|home|work|docker|libvirt|nm-shared|allow-host-ipv6)(?:_(?:pre|log|deny|allow|post))?$/,
      table: /^firewalld/,
    },
  ],
  [
    { name: 'ufw', does: 'the firewall of the host', inspect: 'ufw status verbose', setsPolicy: true },
    { chain: /^ufw6?-/ },
  ],
  [
    {
      name: 'NodeLocal DNSCache',
      does: 'packets to the DNS cache of the node',
      inspect: 'kubectl -n kube-system get daemonset node-local-dns',
    },
    { comment: /^NodeLocal DNS Cache/, table: /^node-?local-?dns/ },
  ],
  [
    { name: 'Istio', does: 'packets to the proxies of pods', inspect: 'istioctl analyze -A' },
    { chain: /^ISTIO_/, comment: /^istio/, table: /^istio/ },
  ],
  [
    {
      name: 'EKS (aws-node)',
      does: 'addresses of pods, and the interface of answers to node ports',
      inspect: 'kubectl -n kube-system describe daemonset aws-node',
    },
    { chain: /^AWS-(?:SNAT|CONNMARK)-CHAIN/, comment: /^AWS,/ },
  ],
  [
    { name: 'Antrea', does: 'the way of packets of pods', inspect: 'kubectl get networkpolicies -A' },
    { chain: /^ANTREA-/, comment: /^Antrea: /, table: /^antrea/ },
  ],
  [
    { name: 'Flannel', does: 'forwarding of the network of pods', inspect: 'kubectl get daemonsets -A -l app=flannel' },
    { chain: /^FLANNEL-/, comment: /^flanneld /, table: /^flannel/ },
  ],
  [
    { name: 'Weave Net', does: 'network policy of pods', inspect: 'kubectl get networkpolicies -A' },
    { chain: /^WEAVE(?:$|-)/ },
  ],
  [
    { name: 'Azure NPM', does: 'network policy of pods', inspect: 'kubectl get networkpolicies -A' },
    { chain: /^AZURE-NPM/ },
  ],
  [
    { name: 'kindnet', does: 'network policy and masquerading of pods', inspect: 'kubectl get networkpolicies -A' },
    { chain: /^KIND-MASQ-AGENT$/, comment: /^kind-masq-agent: /, table: /^kindnet-|^kube-network-policies$/ },
  ],
  [
    { name: 'Kube-OVN', does: 'forwarding and masquerading of pods', inspect: 'kubectl get subnets' },
    { chain: /^OVN-(?!KUBE-)/, comment: /^kube-ovn / },
  ],
  [
    { name: 'OpenShift SDN', does: 'forwarding and masquerading of pods', inspect: 'oc get clusternetwork -o yaml' },
    { chain: /^OPENSHIFT-/ },
  ],
  [
    { name: 'Submariner', does: 'packets to other clusters', inspect: 'subctl show all' },
    { chain: /^(?:SUBMARINER|SM-GN)-/, table: /^submariner/i },
  ],
  [
    { name: 'the CNI plugins', does: 'host ports and masquerading of pods', inspect: 'ls /etc/cni/net.d' },
    { chain: /^CNI-/, table: /^cni_/ },
  ],
  [
    { name: 'libvirt', does: 'networks of virtual machines', inspect: 'virsh net-list --all' },
    { chain: /^LIBVIRT_/, table: /^libvirt_network$/ },
  ],
  [
    { name: 'Podman', does: 'networks of containers', inspect: 'podman network ls' },
    { chain: /^NETAVARK[-_]|^nv_/, table: /^netavark$/ },
  ],
  [
    { name: 'LXD', does: 'networks of containers', inspect: 'lxc network list' },
    { comment: /^generated for (?:LXD|Incus) network/, table: /^(?:lxd|incus)$/ },
  ],
  [
    { name: 'systemd', does: 'masquerading and ports of containers', inspect: 'networkctl; machinectl' },
    { table: /^io\.systemd\.nat$/ },
  ],
  [
    { name: 'NetworkManager', does: 'shared connections', inspect: 'nmcli connection show --active' },
    { chain: /^nm-sh-(?:fw|in)-/, comment: /^nm-shared-/, table: /^nm-shared-/ },
  ],
  [
    { name: 'NetBird', does: 'packets of its network', inspect: 'netbird status' },
    { chain: /^NETBIRD-/, table: /^netbird$/ },
  ],
  [
    {
      name: "Oracle Cloud's images",
      does: 'the firewall of the host',
      inspect: 'cat /etc/iptables/rules.v4',
      setsPolicy: true,
    },
    { chain: /^InstanceServices$/ },
  ],
  [
    { name: 'fail2ban', does: 'bans of clients', inspect: 'fail2ban-client status' },
    { chain: /^f2b-/, table: /^f2b-table$/ },
  ],
  [
    { name: 'CrowdSec', does: 'bans of clients', inspect: 'cscli decisions list' },
    { chain: /^CROWDSEC_CHAIN/, table: /^crowdsec6?$/ },
  ],
  [{ name: 'sshguard', does: 'bans of clients', inspect: 'systemctl status sshguard' }, { table: /^sshguard$/ }],
  [
    { name: 'Tailscale', does: 'packets of its network', inspect: 'tailscale status' },
    { chain: /^ts-(?:input|forward|postrouting)$/ },
  ],
  [
    { name: 'wg-quick', does: 'packets of a WireGuard tunnel', inspect: 'wg show' },
    { comment: /^wg-quick\(8\) rule/, table: /^wg-quick-/ },
  ],
  [
    { name: 'fw4 of OpenWrt', does: 'the firewall of the host', inspect: 'fw4 print', setsPolicy: true },
    { comment: /^!fw4: /, table: /^fw4$/ },
  ],
  [
    { name: 'Shorewall', does: 'the firewall of the host', inspect: 'shorewall show', setsPolicy: true },
    { chain: /^(?:dynamic|smurfs|smurflog|tcpflags|logflags|sfilter|sha-lh-[0-9a-f]+)$/ },
  ],
  [
    { name: 'CSF', does: 'the firewall of the host', inspect: 'csf -l', setsPolicy: true },
    { chain: /^(?:LOCALINPUT|LOCALOUTPUT|ALLOWIN|DENYIN|INVDROP|LOGDROPIN|LOGDROPOUT|SYNFLOOD|PORTFLOOD)$/ },
  ],
  [
    {
      name: 'ip-masq-agent',
      does: 'masquerading of what pods send out of the cluster',
      inspect: 'kubectl -n kube-system get configmap ip-masq-agent -o yaml',
    },
    { chain: /^IP-MASQ(?:-AGENT)?$/, comment: /^ip-masq-agent: / },
  ],
  [
    {
      name: 'the kubelet',
      does: 'packets to localhost, and a hint which rule store the node uses',
      inspect: 'journalctl -u kubelet -n 50',
      isInBundles: true,
    },
    { chain: /^KUBE-(?:FIREWALL|KUBELET-CANARY|IPTABLES-HINT)$/ },
  ],
  [
    // Of firewalld on iptables, NixOS and others, in a built-in chain and without a name.
    { name: 'a reverse path filter', does: 'packets that came by another interface', inspect: 'ip route; ip rule' },
    { test: / -m rpfilter .*-j DROP |^fib saddr \. (?:mark \. )?iif oif (?:0|missing) drop / },
  ],
];

/**
 * The owner of a rule, by the table and the chain it is in, the chain it jumps to, its comments, and what it tests.
 * @param place as a trace names it: of nftables the chain is `firewalld filter_INPUT`
 * @returns undefined: none is recognised
 */
export function ownerOf({ table, chain, rule }: Pick<RuleHit, 'table' | 'chain' | 'rule'>): RuleOwner | undefined {
  const isNft = table === 'nftables';
  const target = isNft ? undefined : targetOf(rule);
  const comments = [...rule.matchAll(/\bcomment (?:"([^"]*)"|(?!--)(\S+))/g)].map(
    ([, quoted, word]) => quoted ?? word ?? '',
  );
  // The tools put iptables rules that they keep in nftables into tables of its names, so that a chain alone may tell.
  const [first = '', own = first] = chain.split(' ');
  const isOf = (signs: Signs): boolean =>
    (isNft && signs.table?.test(first) === true) ||
    [own, target].some((name) => name !== undefined && signs.chain?.test(name) === true) ||
    comments.some((comment) => signs.comment?.test(comment) === true) ||
    signs.test?.test(`${rule} `) === true;
  return owners.find(([, signs]) => isOf(signs))?.[0];
}

/** Who sets a built-in chain's policy to drop, by the rules of its table. @returns undefined: none that is recognised does */
export const ownerOfPolicy = (hits: Iterable<RuleHit>): RuleOwner | undefined =>
  [...hits].map(ownerOf).find((owner) => owner?.setsPolicy === true);
