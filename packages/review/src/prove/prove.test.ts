import { orProblems } from '../bundle/node.ts';
import type { BundleFiles } from '@sluice/bundle';
import { printNftTable } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { printProof } from '../emit/prove.ts';
import { bundleOf, edited } from '../example.fixture.ts';
import { nftBundle, nftService } from '../nft.fixture.ts';
import { bundleOf as bundleWith } from '../policy/bundle.fixture.ts';
import { isProved, type Proof, proveBundle } from './prove.ts';
import { outcomeText, sourceText } from '../report/words.ts';

function proofOf(files: BundleFiles): Proof {
  const proof = proveBundle(files);
  return proof;
}

const service = (name: string): string => `profiles/default/services/shop/${name}`;

test.each(['01-cluster-ip', '03-load-balancer', '05-dual-stack', '07-policies', '09-profiles', '10-ipvs', '11-mixed'])(
  '%s is proved',
  (example) => {
    const { counterExamples, faults, profiles } = proofOf(bundleOf(example));
    expect([...counterExamples, ...faults]).toEqual([]);
    expect(profiles.every(({ flows }) => flows > 0)).toBe(true);
  },
);

test.each(['01-cluster-ip', '10-ipvs', '13-nftables'])('%s is proved under a profile named services', (example) => {
  const renamed = [...bundleOf(example)].map(
    ([path, text]) =>
      [path.replace('/default/', '/services/'), text.replace('profile: default\n', 'profile: services\n')] as const,
  );
  const { counterExamples, profiles } = proofOf(new Map(renamed));
  expect(counterExamples).toEqual([]);
  expect(profiles.map(({ profile }) => profile)).toContain('services');
});

test.each([
  [
    'a share',
    '01-cluster-ip',
    service('web.iptables'),
    (text: string) => text.replace(/--probability 0\.5\d*/, '--probability 0.7500000000'),
  ],
  [
    'a weight',
    '10-ipvs',
    service('web.ipvs'),
    (text: string) => text.replace('10.244.2.5:8080 -m -w 2', '10.244.2.5:8080 -m -w 1'),
  ],
  [
    'a real server',
    '10-ipvs',
    service('web.ipvs'),
    (text: string) => text.replace('-r 10.244.2.5:8080', '-r 10.244.2.6:8080'),
  ],
  [
    'a scheduler',
    '10-ipvs',
    service('web.ipvs'),
    (text: string) => text.replace('-A -t 10.96.0.10:80 -s wrr', '-A -t 10.96.0.10:80 -s rr'),
  ],
  [
    'an entry of a set',
    '10-ipvs',
    service('web.ipset'),
    (text: string) => text.replace(/^.*KUBE-CLUSTER-IP 10\.96\.0\.10,tcp:80\n/m, ''),
  ],
] as const)(
  '%s that differs from the declaration is a counter-example of its Service',
  (_title, example, path, edit) => {
    const { counterExamples } = proofOf(edited(bundleOf(example), path, edit));
    expect(counterExamples.length).toBeGreaterThan(0);
    for (const { destination, nodes, packet } of counterExamples) {
      expect(destination.services).toContain('shop/web');
      expect(nodes.nodes.length).toBeGreaterThan(0);
      expect(packet.destination).toBe(destination.address);
    }
  },
);

test('a counter-example has source, destination and outcome', () => {
  const open = edited(bundleOf('03-load-balancer'), service('web.iptables'), (text) =>
    text.replaceAll('-s 198.51.100.0/25', '-s 198.51.0.0/16'),
  );
  const said = proofOf(open).counterExamples.map(
    ({ source, destination, nodes, expected, found }) =>
      `${sourceText(source)} → ${destination.address} on ${nodes.nodes.join()}: ${expected.kind}, not ${outcomeText(found)}`,
  );
  expect(said).toEqual(['outside 198.51.0.0/16 → 203.0.113.9 on node-1: drop, not 10.244.1.5:8080']);
});

test('reports base files that let other hosts reach loopback addresses', () => {
  const open = edited(bundleOf('01-cluster-ip'), first, (text) => text.replace(/^-A KUBE-FIREWALL .*\n/m, ''));
  const reached = proofOf(open).counterExamples.map(({ destination }) => destination.address);
  expect(new Set(reached)).toEqual(new Set(['127.0.0.1']));
});

const first = 'profiles/default/base/first.iptables';
const last = 'profiles/default/base/last.iptables';

test.each([
  ['stands is dropped', last, /(RELATED,ESTABLISHED) -j ACCEPT/, '$1 -j DROP', 'established DROP'],
  ['stands is left to others', last, /^.*RELATED,ESTABLISHED.*\n/m, '', 'established left to other rules'],
  [
    'is invalid counts as standing',
    last,
    '--ctstate INVALID',
    '--ctstate INVALID,ESTABLISHED',
    'established DROP, related ones let through',
  ],
  ['belongs to no connection passes', last, /^.*INVALID.*\n/m, '', 'invalid left to other rules'],
  ['will be masqueraded is left to others', last, /^.*forwarding rules.*\n/m, '', 'masqueraded left to other rules'],
  ['was masqueraded keeps its mark', first, /^.*--xor-mark.*\n/m, '', 'mark stays'],
  ['was masqueraded has another mark', first, /--xor-mark 0x00004000/, '--xor-mark 0x00008000', 'mark stays'],
  ['is masqueraded takes ports in order', first, ' --random-fully', '', 'source-ports in order'],
  [
    'stands on one node is dropped',
    last,
    '-A KUBE-FORWARD',
    '@node=node-1 -A KUBE-FORWARD -j DROP\n-A KUBE-FORWARD',
    'established let through, some DROP',
  ],
  [
    'stands in one network is dropped',
    last,
    '-A KUBE-FORWARD',
    '-A KUBE-FORWARD -s ${node.podCIDR} -j DROP\n-A KUBE-FORWARD',
    'established let through, some DROP',
  ],
] as const)('reports base files in which a packet that %s', (_title, path, from, to, fault) => {
  const { faults } = proofOf(edited(bundleOf('03-load-balancer'), path, (text) => text.replace(from, to)));
  expect(faults.map(({ what, found }) => `${what} ${found}`)).toContain(fault);
});

test.each([
  ['a rule that nothing reaches', first, /COMMIT\n$/, '-A KUBE-POSTROUTING -j MASQUERADE\nCOMMIT\n'],
  ['a rule given twice', last, /^(.*RELATED,ESTABLISHED.*\n)/m, '$1$1'],
  [
    'a rule that says more closely what the next one says',
    last,
    '-A KUBE-FORWARD -m comment',
    '-A KUBE-FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT\n-A KUBE-FORWARD -m comment',
  ],
] as const)('accepts base files with %s', (_title, path, from, to) => {
  const { counterExamples, faults } = proofOf(
    edited(bundleOf('03-load-balancer'), path, (text) => text.replace(from, to)),
  );
  expect([...counterExamples, ...faults]).toEqual([]);
});

test.each([
  [
    'masquerades',
    '03-load-balancer',
    first,
    /COMMIT\n$/,
    '-A KUBE-SERVICES -d 192.168.3.0/24 -j KUBE-MARK-MASQ\nCOMMIT\n',
  ],
  ['masquerades', '10-ipvs', first, /COMMIT\n$/, '-A KUBE-SERVICES -d 192.168.3.0/24 -j KUBE-MARK-MASQ\nCOMMIT\n'],
  ['drops', '03-load-balancer', last, '-A KUBE-FORWARD', '-A KUBE-FORWARD -d 192.168.3.0/24 -j DROP\n-A KUBE-FORWARD'],
] as const)(
  'reports base files that %s traffic to addresses of no Service, in %s',
  (_title, example, path, from, to) => {
    const { counterExamples } = proofOf(edited(bundleOf(example), path, (text) => text.replace(from, to)));
    expect(counterExamples.map(({ destination }) => destination.address)).toContain('192.168.3.0');
  },
);

test('the last line reports a failure of base files alone', () => {
  const dropped = edited(bundleOf('01-cluster-ip'), last, (text) =>
    text.replace(/(RELATED,ESTABLISHED) -j ACCEPT/, '$1 -j DROP'),
  );
  const proof = proofOf(dropped);
  expect(isProved(proof)).toBe(false);
  expect(printProof(proof, 'text')).toMatch(
    /^profile default, ipv4: forwarded packets of established connections: DROP, expected let through\n[^]*\nthe base rules of 1 profile differ from kube-proxy's\n$/,
  );
  expect(JSON.parse(printProof(proof, 'json'))).toMatchObject({ proved: false, faults: [{ what: 'established' }] });
});

/** Each edit removes the rule that distinguishes sources or nodes which are declared to differ. */
test.each([
  [
    'a source range twice as wide',
    '03-load-balancer',
    service('web.iptables'),
    (text: string) => text.replaceAll('-s 198.51.100.0/25', '-s 198.51.100.0/24'),
  ],
  [
    'a local endpoint that every node sends to',
    '07-policies',
    'profiles/default/services/ops/node-log.iptables',
    (text: string) => text.replaceAll(/^@(?:node=(?!node-1 )|nolocal=)\S+ .*\n/gm, '').replaceAll(/^@\S+ /gm, ''),
  ],
  [
    'hints that no node follows',
    '06-zones',
    service('web.iptables'),
    (text: string) => text.replaceAll(/^@zone=(?!a )\S+ .*\n/gm, '').replaceAll(/^@zone=a /gm, ''),
  ],
  [
    'an endpoint that meets itself on every node',
    '10-ipvs',
    service('web.ipset'),
    (text: string) => text.replaceAll(/^@node=\S+ (add KUBE-LOOP-BACK)/gm, '$1'),
  ],
] as const)('%s is a counter-example', (_title, example, path, edit) => {
  expect(proofOf(edited(bundleOf(example), path, edit)).counterExamples).not.toEqual([]);
});

test('a bundle of mode nftables is proved', () => {
  const { counterExamples, faults, profiles } = proofOf(nftBundle);
  expect([...counterExamples, ...faults]).toEqual([]);
  // Six frontends, four ClusterIPs and six endpoints as clients; `pods`, `keep`, `node`, `cidr` and a source range.
  const headerSpace = { keys: 16, intervals: 5, unjudged: [] };
  expect(profiles).toMatchObject([{ family: 'ipv4', services: 4, headerSpace }]);
  const said = '16 keys and 5 intervals divide all packets, all judged';
  expect(printProof(proofOf(nftBundle), 'text')).toContain(said);
  expect(profiles[0]?.flows).toBeGreaterThan(50);
});

test('keys and intervals that no packet can meet are named', () => {
  const nowhere = edited(nftBundle, 'nodes/node-1/node.yaml', (text) => text.replace(/^ +address: .*\n/m, ''));
  const onNode = edited(nowhere, lastNft, (text) => text.replace('${node.address}', '192.0.2.11'));
  const { profiles } = proofOf(onNode);
  expect(profiles[0]?.headerSpace?.unjudged).toEqual(['0.0.0.0 . tcp . 30090', 'node 192.0.2.11']);
  const said = 'all packets, 2 not judged: 0.0.0.0 . tcp . 30090, node 192.0.2.11';
  expect(printProof(proofOf(onNode), 'text')).toContain(said);
});

test('mode ipvs: masquerading of a packet that no Service translates is found', () => {
  const path = 'profiles/default/base/first.iptables';
  const files = edited(bundleOf('10-ipvs'), path, (text) =>
    text.replace('-A KUBE-SERVICES -s 127.0.0.0/8 -j RETURN\n', ''),
  );
  const proof = proofOf(files);
  expect(
    new Set(proof.counterExamples.map(({ destination, found }) => `${destination.kind} ${outcomeText(found)}`)),
  ).toEqual(new Set(['localhost no Service matches, masqueraded']));
});

test.each([
  ['an endpoint', 'web', '10.244.2.7 . 8080 }', '10.244.2.8 . 8080 }', 'tcp 10.96.0.10 80'],
  ['a missing endpoint', 'web', /^.*10\.244\.2\.7 \. 8080 \}\n/gm, '', 'tcp 10.96.0.10 80'],
  ['a time of affinity', 'cart', 't600', 't300', 'tcp 10.96.0.20 80'],
  ['a dropped instead of a rejected packet', 'idle', 'goto refuse', 'drop', 'tcp 10.96.0.40 80'],
  ['an endpoint that is not masqueraded to itself', 'web', /^@node=node-1 .*loop4 .*\n/gm, '', 'tcp 10.96.0.10 80'],
  ['the ClusterIP of no endpoint', 'idle', /^.*cluster4 .*\n/gm, '', 'tcp 10.96.0.40 9'],
  ['a missing ClusterIP', 'web', /^.*cluster4 .*\n/gm, '', 'tcp 10.96.0.10 80'],
  ['a scheduler', 'web', 'n${count}', 'h${count}', 'tcp 10.96.0.10 80'],
  ['a Maglev table', 'web', 'n${count}', 'm1009', 'tcp 10.96.0.10 80'],
  ['a weight', 'web', '${slot} : 10.244.2.7', '${slot:3} : 10.244.2.7', 'tcp 10.96.0.10 80'],
  ['a declared weight', 'web', /(# endpoint .*10\.244\.2\.7:8080.*)/g, '$1, weight 3', 'tcp 10.96.0.10 80'],
  ['a source range', 'gate', '198.51.100.0/25 }', '198.51.100.0/24 }', 'tcp 203.0.113.9 80'],
  ['another policy', 'gate', /^.*(?:(?:near|out)4 |localSlot).*\n/gm, '', 'tcp 203.0.113.9 80'],
  ['a local endpoint of another node', 'gate', '@node=node-2 ', '@node!=node-2 ', 'tcp  30090'],
  ['a node port that is no more', 'gate', /, 0\.0\.0\.0 \. tcp \. 30090 : goto pn\$\{count\}/g, '', 'RULE_REFUSED'],
] as const)('%s of mode nftables that differs from the declaration is found', (_title, name, from, to, destination) => {
  const files = edited(nftBundle, nftService(name), (text) => text.replaceAll(from, to));
  const found = orProblems(() => proveBundle(files));
  const places = 'counterExamples' in found ? found.counterExamples.map((one) => one.destination) : [];
  const shown = places.map(({ protocol, address, port }) => `${protocol} ${address} ${port}`);
  expect('counterExamples' in found ? shown : found.map(({ code }) => code)).toContain(destination);
});

test.each([
  ['turns', '# scheduler round-robin', 'i${count}', '${slot}'],
  ['a Maglev table with weights', '# scheduler maglev 251', 'm251', '${slot:3}'],
])('%s of mode nftables that are declared are proved', (_title, scheduler, list, slot) => {
  const files = edited(nftBundle, nftService('web'), (text) =>
    text
      .replace('\n', `\n${scheduler}\n`)
      .replaceAll('n${count}', list)
      .replaceAll('${slot} : 10.244.2.7', `${slot} : 10.244.2.7`)
      .replaceAll(/(# endpoint .*10\.244\.2\.7:8080.*)/g, slot.includes('3') ? '$1, weight 3' : '$1'),
  );
  expect(proofOf(files).counterExamples).toEqual([]);
});

const lastNft = 'profiles/default/base/last.nft';
const firstNft = 'profiles/default/base/first.nft';

test.each([
  ['mode iptables', bundleOf('01-cluster-ip'), service('web.iptables')],
  ['mode nftables', nftBundle, nftService('web')],
] as const)(
  '%s: packets to an endpoint on the address of the node are delivered, not masqueraded',
  (_title, files, path) => {
    const onNode = edited(files, path, (text) => text.replaceAll('10.244.1.5', '192.0.2.11'));
    expect(proofOf(onNode).counterExamples).toEqual([]);
  },
);

test.each([
  ['none', '', '10.96.0.0'],
  ['its first half', 'add element inet sluice cidr4 { 10.96.0.0/17 }\n', '10.96.128.0'],
  ['its second half', 'add element inet sluice cidr4 { 10.96.128.0/17 }\n', '10.96.0.0'],
  ['more', 'add element inet sluice cidr4 { 10.96.0.0/15 }\n', '10.97.0.0'],
] as const)('where packets to addresses of no Service are dropped: %s of the Service CIDR', (_title, line, address) => {
  const files = edited(nftBundle, lastNft, (text) => text.replace(/^.* cidr4 .*\n/m, line));
  expect(new Set(proofOf(files).counterExamples.map(({ destination }) => destination.address))).toEqual(
    new Set([address]),
  );
});

test('nothing is expected in Service CIDRs that are defaults', () => {
  const withoutCidrs = edited(nftBundle, lastNft, (text) => text.replace(/^.* cidr4 .*\n/m, ''));
  const comment = '# serviceCIDRs is not set: packets to addresses that no Service has are not dropped\n';
  const unnamed = edited(withoutCidrs, lastNft, (text) => comment + text);
  expect([withoutCidrs, unnamed].map((files) => isProved(proofOf(files)))).toEqual([false, true]);
});

test('a missing network of pods is found where the table masquerades all', () => {
  const all = edited(nftBundle, firstNft, () => printNftTable({ detector: 'address', masqueradeAll: true }));
  const masqueraded = edited(all, lastNft, (text) => text.replace(/^.* keep4 .*\n/m, ''));
  const without = edited(masqueraded, lastNft, (text) => text.replace(/^.* pods4 .*\n/m, ''));
  expect([masqueraded, without].map((files) => isProved(proofOf(files)))).toEqual([true, false]);
});

const localhostBundle = (addresses: string): BundleFiles =>
  bundleWith(
    [
      {
        name: 'web',
        type: 'NodePort',
        clusterIPs: ['10.96.0.30'],
        endpoints: ['10.244.1.5 node-a z1', '10.244.2.7 node-b z2'],
      },
    ],
    `    mode: nftables\n    kubeProxyVersion: "1.38"\n    nodePortAddresses: [${addresses}]\n`,
  );

test.each(['primary', 'primary, localhost', 'all'])(
  'node ports on localhost in mode nftables are proved: %s',
  (addresses) => {
    const { counterExamples, faults } = proofOf(localhostBundle(addresses));
    expect([...counterExamples, ...faults]).toEqual([]);
  },
);

test('masquerading that is missing for node ports on localhost is found', () => {
  const files = edited(localhostBundle('primary, localhost'), lastNft, (text) =>
    text.replace(/^.* 127\.0\.0\.0\/8 .*\n/m, ''),
  );
  const kinds = new Set(proofOf(files).counterExamples.map(({ destination }) => destination.kind));
  expect(kinds).toEqual(new Set(['localhost']));
});

const withoutAddress = (text: string): string => text.replace(/^ +address: .*\n/m, '');

test.each<[string, BundleFiles, readonly string[]]>([
  ['mode iptables', bundleOf('02-node-port'), ['packets-of-the-node', 'node-ports']],
  ['mode iptables, no node port', bundleOf('01-cluster-ip'), ['packets-of-the-node']],
  ['mode ipvs', bundleOf('10-ipvs'), ['packets-of-the-node', 'node-ports']],
  ['mode nftables', bundleOf('13-nftables'), ['packets-of-the-node', 'node-ports']],
])('%s: what a node without an address does is not judged', (_title, files, expected) => {
  const path = [...files.keys()].find((one) => one.startsWith('nodes/node-2'))!;
  const proof = proofOf(edited(files, path, withoutAddress));
  expect(proofOf(files).unjudged).toEqual([]);
  expect(isProved(proof)).toBe(true);
  expect(proof.unjudged).toEqual(
    expected.map((what) => ({ profile: 'default', family: 'ipv4', what, nodes: ['node-2'] })),
  );
  const said = printProof(proof, 'text').trimEnd().split('\n');
  expect(said.at(-1)).toBe('The rules implement all Services as declared, except for what was not judged');
  expect(said).toContain(
    'profile default, ipv4: not judged: packets of the node itself on node-2: node.yaml has no address of the family',
  );
  expect(JSON.parse(printProof(proof, 'json'))).toMatchObject({ proved: true, unjudged: proof.unjudged });
});

test('a profile without nodes is not judged', () => {
  const files = new Map([...bundleOf('01-cluster-ip')].filter(([path]) => !path.startsWith('nodes/')));
  const { unjudged } = proofOf(files);
  expect(unjudged).toEqual([{ profile: 'default', family: 'ipv4', what: 'all', nodes: [] }]);
});
