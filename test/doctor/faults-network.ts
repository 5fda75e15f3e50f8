import type { Fault } from './faults.ts';
import { addresses } from './manifests.ts';
import type { DoctorNode } from './node.ts';

const six = ({ drawn }: DoctorNode): string => (drawn.family === 'ipv4' ? '' : '-6 ');
const width = ({ drawn }: DoctorNode): number => (drawn.family === 'ipv4' ? 32 : 128);

/** Interfaces, routes, sysctls, addresses and ports. Pods a1 and c1 are behind pod0 and pod1. */
export const networkFaults: readonly Fault[] = [
  {
    name: 'forwarding is off',
    cause: 'FORWARDING_OFF',
    make: ({ drawn, host }) =>
      host.sysctl(drawn.family === 'ipv4' ? { 'net/ipv4/ip_forward': '0' } : { 'net/ipv6/conf/all/forwarding': '0' }),
  },
  {
    name: 'forwarding is off on the interface of the pod',
    cause: 'FORWARDING_OFF',
    make: ({ drawn, host }) => host.sysctl({ [`net/${drawn.family}/conf/pod0/forwarding`]: '0' }),
    service: { endpoints: ['a1'] },
    family: 'ipv4',
  },
  {
    name: 'IPv6 was switched off',
    cause: 'IPV6_OFF',
    family: 'ipv6',
    make: ({ host }) => host.sysctl({ 'net/ipv6/conf/all/disable_ipv6': '1' }),
  },
  { name: 'no endpoint is ready', cause: 'NO_ENDPOINTS', service: { endpoints: [] }, make: async () => {} },
  {
    name: 'no endpoint is ready, asked by address',
    cause: 'NO_ENDPOINTS',
    service: { endpoints: [] },
    make: async () => {},
    asks: ({ drawn }) => drawn.clusterIP,
  },
  {
    name: 'policy Local, and no endpoint is on this node',
    cause: 'NO_LOCAL_ENDPOINT',
    service: { endpoints: ['b1'], externalPolicy: 'Local' },
    make: async () => {},
  },
  {
    name: 'internal policy Local, and no endpoint is on this node',
    cause: 'NO_LOCAL_ENDPOINT',
    service: { endpoints: ['b1'], internalPolicy: 'Local' },
    make: async () => {},
  },
  {
    name: 'a blackhole route covers the pods of the other node',
    cause: 'NO_ROUTE',
    service: { endpoints: ['b1'] },
    make: (node) => node.sh(`ip ${six(node)}route add blackhole ${node.address('b1')}/${width(node)}`),
  },
  {
    name: 'the route to the pod of this node is gone and an unreachable one is left',
    cause: 'NO_ROUTE',
    service: { endpoints: ['a1'] },
    make: (node) =>
      node.sh(
        `ip ${six(node)}route del ${node.address('a1')}; ip ${six(node)}route add unreachable ${node.address('a1')}/${width(node)}`,
      ),
  },
  {
    name: 'the default route is gone',
    cause: 'NO_ROUTE',
    make: (node) => node.sh(`ip ${six(node)}route del default`),
  },
  {
    name: 'replies of the endpoint are routed into nothing (asymmetric routes)',
    cause: 'NO_ROUTE',
    service: { endpoints: ['a1'] },
    make: (node) => node.sh(`ip ${six(node)}rule add from ${node.address('a1')} prohibit`),
  },
  {
    name: 'the interface of the pod is down',
    cause: 'INTERFACE_DOWN',
    service: { endpoints: ['a1'] },
    // A static route of a CNI plugin stays, unlike the routes of an interface that goes down.
    async make(node) {
      await node.cluster.host('a1').run(['ip', 'link', 'set', 'eth0', 'down']);
    },
  },
  {
    name: 'the next hop does not answer',
    cause: 'NEIGHBOUR_FAILED',
    service: { endpoints: ['a1'] },
    async make(node) {
      await node.cluster
        .host('a1')
        .run(['sh', '-c', 'ip addr flush dev eth0; ip link set eth0 arp off; ip -6 addr flush dev eth0']);
      await node.sh(
        'ip neigh flush dev pod0; ip -6 neigh flush dev pod0; sysctl -q -w net.ipv4.neigh.pod0.retrans_time_ms=100 net.ipv6.neigh.pod0.retrans_time_ms=100',
      );
      await node.connect('c1');
      await node.connect('node-a');
      await node.sh('sleep 1');
    },
  },
  {
    name: 'the reverse path filter drops packets that arrive by another interface',
    cause: 'REVERSE_PATH_FILTER',
    family: 'ipv4',
    service: { endpoints: ['b1'] },
    async make(node) {
      // ARP, too, is subject to the filter: the client must know its gateway.
      await node.connect('c1');
      await node.host.sysctl({ 'net/ipv4/conf/all/rp_filter': '1' });
      await node.sh(`ip route replace ${node.address('c1')} via 169.254.1.1 dev eth0 onlink`);
      for (let n = 0; n < 4; n++) await node.connect('c1');
    },
  },
  {
    name: 'the interface to the other node takes tiny packets only',
    cause: 'MTU_TOO_SMALL',
    family: 'ipv4',
    service: { endpoints: ['b1'] },
    make: (node) => node.sh('ip link set eth0 mtu 900'),
  },
  {
    name: 'packets do not fit through the tunnel, and the sender never learns it',
    cause: 'MTU_TOO_SMALL',
    family: 'ipv4',
    service: { endpoints: ['b1'] },
    async make(node) {
      await node.sh('ip link set eth0 mtu 1400');
      const send = `const s = require('node:dgram').createSocket('udp4'); for (let n = 0; n < 5; n++) s.send(Buffer.alloc(1440), 9, '${node.address('b1')}'); setTimeout(() => process.exit(), 300)`;
      await node.cluster.host('c1').run([process.execPath, '-e', send]);
    },
  },
  {
    name: 'the address of the Service is on an interface',
    cause: 'ADDRESS_ON_INTERFACE',
    make: (node) => node.sh(`ip addr add ${node.drawn.clusterIP}/${width(node)} dev lo`),
  },
  {
    name: 'a program listens on the node port',
    cause: 'LISTENER_ON_NODE_PORT',
    make: async (node) => node.host.serve('tcp', node.drawn.nodePort),
  },
  {
    name: 'the kernel picks source ports among the node ports',
    cause: 'PORT_RANGE_OVERLAPS',
    make: (node) => node.host.sysctl({ 'net/ipv4/ip_local_port_range': '1024\t65000' }),
  },
  {
    name: 'the node has another address than its bundle says',
    cause: 'NODE_ADDRESS_MISSING',
    make: (node) =>
      node.sh(
        `ip addr add ${node.drawn.family === 'ipv4' ? '192.0.2.99/32' : '2001:db8:2::99/128'} dev eth0; ip addr del ${node.address('node-a')}/${width(node)} dev eth0`,
      ),
  },
  {
    name: 'a pod behind a bridge cannot reach itself: hairpin mode is off',
    cause: 'HAIRPIN_OFF',
    family: 'ipv4',
    service: { endpoints: ['a1'] },
    async make(node) {
      await node.sh(
        [
          'sysctl -q -w net.bridge.bridge-nf-call-iptables=1',
          'ip link add cni0 type bridge',
          'ip addr flush dev pod0',
          'ip link set pod0 master cni0',
          'ip link set cni0 up',
          'ip addr add 169.254.1.2/32 dev cni0 scope link',
          `ip route replace ${node.address('a1')} dev cni0`,
          `ip -6 route replace ${addresses.a1.ipv6} dev cni0`,
        ].join('\n'),
      );
      await node.cluster.host('a1').run(['ip', 'neigh', 'flush', 'dev', 'eth0']);
      const others = await node.connect('c1');
      const itself = await node.connect('a1');
      if (others.kind !== 'answer' || itself.kind === 'answer')
        throw new Error(`Only the pod itself must be cut off: ${JSON.stringify({ others, itself })}`);
    },
  },
];
