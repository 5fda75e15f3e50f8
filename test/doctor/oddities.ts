import type { DoctorNode } from './node.ts';
import { between, pick } from './plan.ts';

/** Things that a node has besides its fault, and that do no harm. */
const oddities: readonly { readonly name: string; make(node: DoctorNode): Promise<unknown> }[] = [
  {
    name: 'a firewall drops a port of the node',
    make: (node) => node.sh(`${node.iptables} -A INPUT -p tcp -m tcp --dport 23 -j DROP`),
  },
  {
    name: 'a firewall drops an unused network',
    make: (node) =>
      node.sh(
        `${node.iptables} -I FORWARD -s ${node.drawn.family === 'ipv4' ? '192.0.2.200/29' : '2001:db8:dead::/48'} -j DROP`,
      ),
  },
  {
    name: 'a rule logs invalid packets',
    make: (node) => node.sh(`${node.iptables} -A FORWARD -m conntrack --ctstate INVALID -j DROP`),
  },
  {
    name: 'a table of nftables counts',
    make: (node) =>
      node.sh(
        `nft add table inet stats; nft 'add chain inet stats f { type filter hook forward priority 10 ; }'; nft add rule inet stats f counter`,
      ),
  },
  {
    name: 'nftables limits new connections to the node',
    make: (node) =>
      node.sh(
        `nft add table inet guard; nft 'add chain inet guard i { type filter hook input priority 0 ; }'; nft add rule inet guard i tcp dport 22 limit rate over 10/minute drop`,
      ),
  },
  { name: 'a further address is on loopback', make: (node) => node.sh('ip addr add 203.0.113.201/32 dev lo') },
  { name: 'a blackhole route for a bogon', make: (node) => node.sh('ip route add blackhole 192.168.254.0/24') },
  { name: 'a policy rule for another source', make: (node) => node.sh('ip rule add from 192.168.77.0/24 prohibit') },
  {
    name: 'a program listens on a high port',
    make: (node) => node.host.serve('tcp', between(40_000, 60_000, node.drawn.random)),
  },
  {
    name: 'docker masquerades its bridge',
    make: (node) => node.sh('iptables-nft -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE'),
  },
  { name: 'the reverse path filter is loose', make: ({ host }) => host.sysctl({ 'net/ipv4/conf/all/rp_filter': '2' }) },
  {
    name: 'the kernel has many sockets waiting',
    make: ({ host }) => host.sysctl({ 'net/ipv4/tcp_fin_timeout': '15' }),
  },
];

/** Adds two of them. @returns their names */
export async function addOddities(node: DoctorNode): Promise<readonly string[]> {
  const first = pick(oddities, node.drawn.random);
  const second = pick(
    oddities.filter((one) => one !== first),
    node.drawn.random,
  );
  for (const one of [first, second]) await one.make(node);
  return [first.name, second.name];
}
