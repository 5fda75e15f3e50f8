import { isProblem, type Observation, observationOf, printObservation, readObservation, textsOf } from '@sluice/bundle';
import { atTier, runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { bundleOf } from '../../packages/review/src/example.fixture.ts';
import { savedFiles } from '../../packages/review/src/parity/observed.fixture.ts';
import { parityOf } from '../../packages/review/src/parity/parity.ts';
import { mutated } from './mutated.ts';

/** Saved outputs of tools, whatever became of them: what is made of them can be read and compared, and nothing throws. */

const node = 'node-1';
const nft = `table ip kube-proxy {
\tmap service-ips {
\t\ttype ipv4_addr . inet_proto . inet_service : verdict
\t\telements = { 10.96.0.10 . tcp . 80 : goto service-a }
\t}
\tset affinity-a {
\t\ttype ipv4_addr
\t\tflags dynamic,timeout
\t\ttimeout 3h
\t}
\tchain nat-prerouting {
\t\ttype nat hook prerouting priority dstnat; policy accept;
\t\tct state new ip daddr . meta l4proto . th dport vmap @service-ips
\t}
\tchain service-a {
\t\tip daddr 10.96.0.10 tcp dport 80 ip saddr != 10.244.0.0/16 meta mark set meta mark | 0x00004000
\t\tupdate @affinity-a { ip saddr } counter packets 3 bytes 9
\t\tdnat to numgen random mod 2 map { 0 : 10.244.1.5, 1 : 10.244.2.5 }:8080
\t}
}
`;
const listedSets =
  'Name: A\nType: hash:ip,port\nHeader: family inet\nNumber of entries: 1\nMembers:\n10.96.0.1,tcp:443\n';
const listedServers =
  'IP Virtual Server version 1.2.1 (size=4096)\nTCP  10.96.0.20:80 rr persistent 10800\n  -> 10.244.1.5:8080  Masq  1  0  0\n';

/** Of examples in two modes: each file with a text that its tool prints. */
const saved = (['02-node-port', '10-ipvs'] as const).map((example) => savedFiles(bundleOf(example), node));
const good: readonly (readonly [file: string, text: string])[] = [
  ...saved.flatMap((files) => [...files].filter(([, text]) => text.length > 2)),
  ['nft.txt', nft],
  ['ipset.txt', listedSets],
  ['ipvsadm.txt', listedServers],
  ['ip-addr.json', '[{"ifname":"kube-ipvs0","addr_info":[{"local":"10.96.0.1","prefixlen":32}]}]'],
  ['ip-route.txt', 'default via 192.0.2.1 dev eth0\n10.244.1.0/24 dev cni0 expires 3sec\n'],
];

/** A file with a text that was changed. */
const changed = fc.constantFrom(...good).chain(([file, text]) => fc.tuple(fc.constant(file), mutated([text])));

const observe = (files: ReadonlyMap<string, string>): Observation => observationOf({ node, tools: {} }, textsOf(files));

test('whatever saved outputs say, the file that is made of them is read, and says the same', () => {
  fc.assert(
    fc.property(changed, ([file, text]) => {
      const seen = observe(new Map([[file, text]]));
      const read = readObservation('o.json', [...printObservation(seen)].join(''));
      expect(isProblem(read) ? read.message : read).toEqual(seen);
    }),
    runs(atTier({ quick: 300, all: 10_000 })),
  );
});

test('whatever saved outputs say, a node is compared, and what is not understood is named', () => {
  const bundle = bundleOf('10-ipvs');
  const usual = saved[1] ?? new Map<string, string>();
  fc.assert(
    fc.property(changed, ([file, text]) => {
      const report = parityOf(bundle, observe(new Map([...usual, [file, text]])), node);
      expect(report).toHaveProperty('result');
    }),
    runs(atTier({ quick: 8, all: 400 })),
  );
});
