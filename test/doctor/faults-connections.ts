import { writeFileSync } from 'node:fs';
import type { Fault } from './faults.ts';
import type { DoctorNode } from './node.ts';

/** Clients keep trying. */
async function tries(node: DoctorNode, times = 6): Promise<void> {
  for (let n = 0; n < times; n++) await node.connect('c1');
}

/** The values of the kernel's table are those of all namespaces: a file in their place stands for a table that is full. */
const instead = (node: DoctorNode, values: Readonly<Record<string, string>>): Promise<string> =>
  node.sh(
    Object.entries(values)
      .map(
        ([name, value], n) =>
          `echo ${value} > /run/instead-${n}; mount --bind /run/instead-${n} /proc/sys/net/netfilter/${name}`,
      )
      .join('\n'),
  );

/** Tracked connections and endpoints. */
export const connectionFaults: readonly Fault[] = [
  {
    name: 'the table of connections is full',
    cause: 'CONNTRACK_FULL',
    make: (node) => instead(node, { nf_conntrack_count: '262144', nf_conntrack_max: '262144' }),
  },
  {
    name: 'established connections are forgotten after ten seconds',
    cause: 'SYSCTL_DIFFERS',
    make: ({ host }) => host.sysctl({ 'net/netfilter/nf_conntrack_tcp_timeout_established': '10' }),
  },
  {
    name: 'answered UDP connections are forgotten after a second',
    cause: 'CONNTRACK_TIMEOUT_SHORT',
    make: ({ host }) => host.sysctl({ 'net/netfilter/nf_conntrack_udp_timeout_stream': '1' }),
  },
  {
    name: 'the Service names another port than its pods listen on',
    cause: 'ENDPOINT_REFUSES',
    args: ['--live'],
    service: { wrongPort: 999 },
    make: (node) => tries(node),
  },
  {
    name: 'the only endpoint has ended and is still ready',
    cause: 'ENDPOINT_REFUSES',
    args: ['--live'],
    service: { wrongPort: 65_000, endpoints: ['b1'] },
    make: (node) => tries(node, 3),
  },
  {
    name: 'a dead endpoint is still ready: connections work now and then',
    cause: 'ENDPOINT_SILENT',
    async make(node) {
      const b1 = node.cluster.host('b1');
      await b1.run(['sh', '-c', 'iptables-nft -P INPUT DROP; ip6tables-nft -A INPUT -p tcp -j DROP']);
      await tries(node, 12);
    },
  },
  {
    name: 'the node port works now and then: one of two endpoints is cut off',
    cause: 'ENDPOINT_SILENT',
    async make(node) {
      const b1 = node.cluster.host('b1');
      await b1.run(['sh', '-c', 'iptables-nft -A INPUT -p tcp -j DROP; ip6tables-nft -A INPUT -p tcp -j DROP']);
      for (let n = 0; n < 12; n++) await node.connect('outside', node.address('node-a'), node.drawn.nodePort);
    },
  },
  {
    name: 'UDP clients stay on an endpoint that was removed',
    cause: 'STALE_CONNECTIONS',
    service: { protocol: 'UDP', endpoints: ['b1'] },
    async make(node) {
      const { drawn } = node;
      const gone = drawn.family === 'ipv4' ? '10.244.2.77' : 'fd00:244:2::77';
      await node.sh(
        `conntrack -I -p udp -s ${node.address('c1')} -d ${drawn.clusterIP} --sport 5353 --dport ${drawn.port} --reply-src ${gone} --reply-dst ${node.address('c1')} --reply-port-src ${drawn.targetPort} --reply-port-dst 5353 -t 120`,
      );
    },
  },
  {
    name: 'masqueraded connections to the only endpoint have used up the source ports',
    cause: 'MASQUERADE_PORTS_EXHAUSTED',
    service: { endpoints: ['b1'] },
    async make(node) {
      const { drawn, host } = node;
      const [client, own, endpoint] = [node.address('outside'), node.address('node-a'), node.address('b1')];
      const entry = (port: number): string =>
        `-A -t 600 -u SEEN_REPLY,ASSURED -s ${client} -d ${own} -r ${endpoint} -q ${own} -p tcp --sport ${port} --dport ${drawn.nodePort} --reply-port-src ${drawn.targetPort} --reply-port-dst ${port} --state ESTABLISHED`;
      // One client with all its ports stands for thousands with some.
      const entries = Array.from({ length: 62_000 }, (_, n) => entry(1024 + n));
      const file = `${node.directory}/connections`;
      writeFileSync(file, `${entries.join('\n')}\n`);
      await host.run(['conntrack', '-R', file], { timeoutMs: 60_000 });
    },
  },
];
