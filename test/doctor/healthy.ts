import type { DoctorNode } from './node.ts';
import type { Plane } from './plan.ts';

/** A node on which everything works, with the rules of another program beside Sluice's. */
export interface Healthy {
  readonly name: string;
  readonly only?: (plane: Plane) => boolean;
  make(node: DoctorNode): Promise<unknown>;
}

const v4 = (node: DoctorNode): boolean => node.drawn.family === 'ipv4';
const pods = (node: DoctorNode): string => (v4(node) ? '10.244.0.0/16' : 'fd00:244::/32');
const load = (node: DoctorNode, text: string, store: string = node.drawn.plane.backend): Promise<string> =>
  node.host.run([`${v4(node) ? 'iptables' : 'ip6tables'}-${store}-restore`, '--noflush'], { input: text });
const isNft = ({ backend }: Plane): boolean => backend === 'nft';

/** As dockerd 27 writes them, on a node whose CNI plugin accepts what pods forward (flannel's rules). */
const docker = (node: DoctorNode): string => `*nat
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d ${v4(node) ? '127.0.0.0/8' : '::1'} -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s ${v4(node) ? '172.17.0.0/16' : 'fd00:d0c::/64'} ! -o docker0 -j MASQUERADE
-A DOCKER -i docker0 -j RETURN
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8443 -j DNAT --to-destination ${v4(node) ? '172.17.0.2:443' : '[fd00:d0c::2]:443'}
COMMIT
*filter
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
:FLANNEL-FWD - [0:0]
:FORWARD DROP [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -i docker0 -o docker0 -j ACCEPT
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A DOCKER -d ${v4(node) ? '172.17.0.2/32' : 'fd00:d0c::2/128'} ! -i docker0 -o docker0 -p tcp -m tcp --dport 443 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -j RETURN
-A FLANNEL-FWD -s ${pods(node)} -j ACCEPT
-A FLANNEL-FWD -d ${pods(node)} -j ACCEPT
COMMIT
`;

/** ufw 0.36 with `ufw default deny incoming`, `ufw default allow routed`, and ssh allowed. */
const ufw = (node: DoctorNode): string => {
  const six = v4(node) ? '' : '6';
  return `*filter
:ufw${six}-before-input - [0:0]
:ufw${six}-after-input - [0:0]
:ufw${six}-before-forward - [0:0]
:ufw${six}-user-input - [0:0]
:ufw${six}-user-forward - [0:0]
:ufw${six}-not-local - [0:0]
:ufw${six}-logging-deny - [0:0]
:INPUT DROP [0:0]
-A INPUT -j ufw${six}-before-input
-A INPUT -j ufw${six}-after-input
-A FORWARD -j ufw${six}-before-forward
-A ufw${six}-before-input -i lo -j ACCEPT
-A ufw${six}-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
${v4(node) ? '' : '-A ufw6-before-input -p ipv6-icmp -j ACCEPT\n'}-A ufw${six}-before-input -m conntrack --ctstate INVALID -j ufw${six}-logging-deny
-A ufw${six}-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw${six}-before-input -j ufw${six}-not-local
-A ufw${six}-before-input -j ufw${six}-user-input
-A ufw${six}-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw${six}-not-local -m addrtype --dst-type MULTICAST -j RETURN
-A ufw${six}-not-local -m limit --limit 3/min --limit-burst 10 -j ufw${six}-logging-deny
-A ufw${six}-not-local -j DROP
-A ufw${six}-user-input -p tcp -m tcp --dport 22 -j ACCEPT
-A ufw${six}-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw${six}-before-forward -j ufw${six}-user-forward
-A ufw${six}-logging-deny -m limit --limit 3/min --limit-burst 10 -j LOG --log-prefix "[UFW BLOCK] "
COMMIT
`;
};

/** Calico 3.28 in insert mode, with a policy on a workload; its chains are first and mark what they accept. */
const calico = `*raw
:cali-PREROUTING - [0:0]
:cali-rpf-skip - [0:0]
-I PREROUTING -m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING
-A cali-PREROUTING -m comment --comment "cali:x4XbVMc5P_kNXnTy" -j MARK --set-xmark 0x0/0xf0000
-A cali-PREROUTING -i cali+ -m comment --comment "cali:fQeZek80kVOPa0xO" -j MARK --set-xmark 0x40000/0x40000
-A cali-PREROUTING -m comment --comment "cali:xp3NolkIpulCQL_G" -m mark --mark 0x40000/0x40000 -m rpfilter --validmark --invert -j DROP
COMMIT
*filter
:cali-FORWARD - [0:0]
:cali-from-wl-dispatch - [0:0]
:cali-to-wl-dispatch - [0:0]
:cali-fw-cali123 - [0:0]
:cali-tw-cali123 - [0:0]
-I FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD
-A FORWARD -m comment --comment "cali:S93hcgKJrXEqnTfs" -m comment --comment "Policy explicitly accepted packet." -m mark --mark 0x10000/0x10000 -j ACCEPT
-A cali-FORWARD -m comment --comment "cali:vjrMJCRpqwy5oRoX" -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -i cali+ -m comment --comment "cali:8ZoYfO5HKXWbB3pk" -j cali-from-wl-dispatch
-A cali-FORWARD -o cali+ -m comment --comment "cali:jdEuaPBe14V2hutn" -j cali-to-wl-dispatch
-A cali-from-wl-dispatch -i cali123 -m comment --comment "cali:a" -g cali-fw-cali123
-A cali-from-wl-dispatch -m comment --comment "cali:b" -m comment --comment "Unknown interface" -j DROP
-A cali-to-wl-dispatch -o cali123 -m comment --comment "cali:c" -g cali-tw-cali123
-A cali-to-wl-dispatch -m comment --comment "cali:d" -m comment --comment "Unknown interface" -j DROP
-A cali-fw-cali123 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A cali-fw-cali123 -m comment --comment "cali:e" -j MARK --set-xmark 0x10000/0x10000
-A cali-tw-cali123 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A cali-tw-cali123 -m mark ! --mark 0x10000/0x10000 -j DROP
COMMIT
`;

/** firewalld 1.3 in its default zone, with forwarding between zones allowed and pods trusted by source. */
const firewalld = (node: DoctorNode): string => `table inet firewalld {
  chain mangle_PREROUTING {
    type filter hook prerouting priority mangle + 10; policy accept;
  }
  chain nat_PREROUTING {
    type nat hook prerouting priority dstnat + 10; policy accept;
    jump nat_PRE_public
  }
  chain nat_PRE_public {
    tcp dport 2222 redirect to :22
  }
  chain filter_INPUT {
    type filter hook input priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_IN_public
    reject with icmpx admin-prohibited
  }
  chain filter_IN_public {
    tcp dport 22 ct state new accept
    ip saddr { 10.244.0.0/16, 192.0.2.0/24, 198.51.100.0/24 } accept
    ip6 saddr { fd00:244::/32, 2001:db8::/32 } accept
    meta l4proto { icmp, ipv6-icmp } accept
  }
  chain filter_FORWARD {
    type filter hook forward priority filter + 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    ${v4(node) ? 'ip6' : 'ip'} daddr ${v4(node) ? '::/96' : '0.0.0.0/8'} reject
    reject with icmpx admin-prohibited
  }
}
`;

/** As many guides for nftables write them, without uppercase chains: `iptables-save` does not print them. */
const namesakes = (node: DoctorNode): string => {
  const ip = v4(node) ? 'ip' : 'ip6';
  return `table ${ip} filter {
chain input { type filter hook input priority 0; policy accept; ct state invalid drop; }
chain forward { type filter hook forward priority 0; policy drop; ct state established,related accept; jump pods; }
chain pods { ${ip} saddr ${pods(node)} accept; ${ip} daddr ${pods(node)} accept; }
}
table ${ip} nat {
chain postrouting { type nat hook postrouting priority 100; ${ip} saddr ${v4(node) ? '172.17.0.0/16' : 'fd00:d0c::/64'} masquerade; }
}
`;
};

/** Twenty of them, with the oddities of the faults. */
export const healthyNodes: readonly Healthy[] = [
  { name: 'nothing but Sluice', make: async () => {} },
  { name: 'Docker, in the same store', make: (node) => load(node, docker(node)) },
  {
    name: 'Docker, in the other store',
    make: (node) => load(node, docker(node), node.drawn.plane.backend === 'nft' ? 'legacy' : 'nft'),
  },
  { name: 'ufw', make: (node) => load(node, ufw(node)) },
  { name: 'ufw and Docker', make: async (node) => (await load(node, docker(node)), load(node, ufw(node))) },
  { name: 'Calico', make: (node) => load(node, calico) },
  { name: 'Calico and Docker', make: async (node) => (await load(node, calico), load(node, docker(node))) },
  { name: 'firewalld', make: (node) => node.host.run(['nft', '-f', '-'], { input: firewalld(node) }) },
  {
    name: 'firewalld and Docker',
    only: isNft,
    make: async (node) => (
      await load(node, docker(node)), node.host.run(['nft', '-f', '-'], { input: firewalld(node) })
    ),
  },
  {
    name: 'a firewall of nftables in tables with the names of iptables',
    make: (node) => node.host.run(['nft', '-f', '-'], { input: namesakes(node) }),
  },
  {
    name: 'connections of many clients',
    make: async (node) => {
      for (let n = 0; n < 20; n++) await node.connect(n % 2 === 0 ? 'c1' : 'node-a');
    },
  },
  {
    name: 'connections to the node port',
    make: async (node) => {
      for (let n = 0; n < 10; n++) await node.connect('outside', node.address('node-a'), node.drawn.nodePort);
    },
  },
  {
    name: 'a running daemon',
    make: async (node) => {
      node.startDaemon();
      await node.sh('sleep 2');
    },
  },
  {
    name: 'a scanner that tried closed ports',
    make: async (node) => {
      for (let n = 1; n < 10; n++) await node.connect('outside', node.address('node-a'), n);
    },
  },
  {
    name: 'strict reverse path filters',
    make: ({ host }) => host.sysctl({ 'net/ipv4/conf/all/rp_filter': '1', 'net/ipv4/conf/default/rp_filter': '1' }),
  },
  { name: 'an overlay with a smaller MTU', make: (node) => node.sh('ip link set eth0 mtu 1450') },
  {
    name: 'a kubelet',
    only: ({ layout }) => layout === 'tree',
    make: (node) =>
      load(
        node,
        `*mangle\n:KUBE-KUBELET-CANARY - [0:0]\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n*filter\n:KUBE-FIREWALL - [0:0]\n-A INPUT -j KUBE-FIREWALL\n-A OUTPUT -j KUBE-FIREWALL\nCOMMIT\n`,
      ),
  },
  {
    name: 'policy routing of another uplink',
    make: (node) =>
      node.sh(
        'ip route add default via 169.254.1.1 dev eth0 onlink table 100; ip rule add pref 90 lookup main suppress_prefixlength 0; ip rule add pref 100 from 192.0.2.11 lookup 100',
      ),
  },
  {
    name: 'a kube-proxy in another network, of a cluster in containers',
    async make(node) {
      const start = `cp "$(command -v sleep)" /run/kube-proxy && exec unshare -n /run/kube-proxy 300`;
      node.host.start(['sh', '-c', start]);
      await node.sh('until grep -qa kube-proxy /proc/[0-9]*/comm 2>/dev/null; do sleep 0.05; done');
    },
  },
  { name: 'a program on a port beside the node ports', make: (node) => node.host.serve('tcp', 29_999) },
  {
    name: 'an audit of dropped packets',
    make: (node) =>
      load(
        node,
        '*filter\n:AUDIT - [0:0]\n-A FORWARD -j AUDIT\n-A AUDIT -m limit --limit 1/s -j LOG\n-A AUDIT -j RETURN\nCOMMIT\n',
      ),
  },
  {
    name: 'an applied change and a rollback',
    make: async (node) => {
      await node.render({ endpoints: ['b1'] });
      await node.apply();
      await node.render(node.options);
      await node.apply();
    },
  },
];
