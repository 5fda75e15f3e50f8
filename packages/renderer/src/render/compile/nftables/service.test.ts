import { ruleLimits } from '@sluice/netfilter';
import { describe, expect, test } from 'vitest';
import { assemble } from '../../assemble.ts';
import type { Endpoint, PortOfFamily, Service, ServicePort } from '../../model/model.ts';
import { fleetOf } from '../../select/guards.ts';
import { configWith, endpoint, inFamily, leaving, node, portWith, profileWith, serviceOf } from '../sample.fixture.ts';
import { nftServiceText } from './service.ts';

const fleet = fleetOf([
  { name: 'node-1', zone: 'a' },
  { name: 'node-2', zone: 'b' },
]);
const context = {
  fleet,
  nodes: new Map([['node-1', node('node-1', { labels: new Map([['example.com/big', 'true']]) })]]),
};
const both = { externalIPs: true, families: ['ipv4', 'ipv6'] } as const;
const one = endpoint('10.244.1.5:8080', { nodeName: 'node-1' });
const two = endpoint('10.244.2.7:8080', { nodeName: 'node-2' });

/** The lines of a Service without its header and without the words that all lines have. */
function linesOf(
  ports: readonly ServicePort[],
  options: Parameters<typeof nftServiceText>[1] = both,
  more: Partial<Service> = {},
): readonly string[] {
  const lines = nftServiceText({ ...serviceOf(ports), ...more }, options, context)
    .split('\n')
    .slice(0, -1);
  return lines.filter((line) => !line.startsWith('#')).map((line) => line.replace('add element inet sluice ', ''));
}
const portLines = (here: Partial<PortOfFamily>, rest: Partial<ServicePort> = {}): readonly string[] =>
  linesOf([portWith(here, rest)]);

test('a ClusterIP has its map, its address and a line for each endpoint', () => {
  expect(portLines({ endpoints: [one, two] })).toEqual([
    'cluster4 { 10.96.7.1 }',
    'svc4 { 10.96.7.1 . tcp . 80 : goto n${count} }',
    'tcp4 { 10.96.7.1 . 80 . ${slot} : 10.244.1.5 . 8080 }',
    'tcp4 { 10.96.7.1 . 80 . ${slot} : 10.244.2.7 . 8080 }',
    '@node=node-1 loop4 { 10.244.1.5 . 10.244.1.5 }',
    '@node=node-2 loop4 { 10.244.2.7 . 10.244.2.7 }',
  ]);
});

test('an endpoint whose node is not known reaches itself on any node, whatever its ports', () => {
  const unknown = endpoint('10.244.1.5:8080');
  const ports = [80, 81].map((port) => portWith({ endpoints: [unknown] }, { port }));
  expect(linesOf(ports).filter((line) => line.includes('loop4'))).toEqual(['loop4 { 10.244.1.5 . 10.244.1.5 }']);
});

test('policy Local, ranges and affinity', () => {
  const here = {
    endpoints: [one],
    loadBalancerIPs: ['203.0.113.9'],
    loadBalancerSourceRanges: ['198.51.100.0/25', '198.51.100.7/32'],
  };
  const rest = { nodePort: 30_090, externalTrafficPolicy: 'Local', healthCheckNodePort: 32_090 } as const;
  expect(portLines(here, { ...rest, affinitySeconds: 600 })).toEqual([
    'cluster4 { 10.96.7.1 }',
    'svc4 { 10.96.7.1 . tcp . 80 : goto s${count}t600, 203.0.113.9 . tcp . 80 : goto s${count}t600, 0.0.0.0 . tcp . 30090 : goto ps${count}t600 }',
    'near4 { 203.0.113.9 . tcp . 80, 0.0.0.0 . tcp . 30090 }',
    'out4 { 203.0.113.9 . tcp . 80 : goto r${localCount}t600, 0.0.0.0 . tcp . 30090 : goto pr${localCount}t600 }',
    'none4 { 203.0.113.9 . tcp . 80 : drop, 0.0.0.0 . tcp . 30090 : drop }',
    'fw4 { 203.0.113.9 . tcp . 80 }',
    'allow4 { 203.0.113.9 . tcp . 80 . 198.51.100.0/25 }',
    '@ip-in=198.51.100.0/25,198.51.100.7/32 allow4 { 203.0.113.9 . tcp . 80 . 203.0.113.9 }',
    'health4 { 32090 }',
    'tcp4 { 10.96.7.1 . 80 . ${slot} : 10.244.1.5 . 8080, 203.0.113.9 . 80 . ${slot} : 10.244.1.5 . 8080, 0.0.0.0 . 30090 . ${slot} : 10.244.1.5 . 8080 }',
    '@node=node-1 tcp4 { 203.0.113.9 . 80 . ${localSlot} : 10.244.1.5 . 8080, 0.0.0.0 . 30090 . ${localSlot} : 10.244.1.5 . 8080 }',
    '@node=node-1 loop4 { 10.244.1.5 . 10.244.1.5 }',
  ]);
});

test.each<[string, readonly Endpoint[], Partial<ServicePort>, readonly string[]]>([
  ['no endpoint at all is refused', [], {}, ['none4 { 10.96.7.1 . tcp . 80 : goto refuse }']],
  [
    'an endpoint that is not ready is none',
    [{ ...one, ready: false }],
    {},
    ['none4 { 10.96.7.1 . tcp . 80 : goto refuse }'],
  ],
  ['an endpoint that terminates serves if it is the last one', [{ ...one, ...leaving }], {}, []],
  ['the same endpoints on every node need no line', [one], {}, []],
  [
    'with hints nodes differ',
    [
      { ...one, hintZones: ['a'] },
      { ...two, hintZones: ['b'] },
    ],
    {},
    ['none4 { 10.96.7.1 . tcp . 80 : drop }'],
  ],
  ['internal policy Local drops', [one], { internalTrafficPolicy: 'Local' }, ['none4 { 10.96.7.1 . tcp . 80 : drop }']],
  ['a node port with policy Cluster', [one], { nodePort: 30_080 }, []],
])('without an endpoint: %s', (_title, endpoints, rest, expected) => {
  expect(portLines({ endpoints }, rest).filter((line) => line.startsWith('none'))).toEqual(expected);
});

/** Every kind of frontend, in both families. */
const everywhere = (suffixes: readonly number[], rest: Partial<ServicePort>): string => {
  const at = (address: string, n: number): Endpoint => endpoint(`${address}${n}:8080`, { nodeName: 'node-1' });
  const ipv4 = inFamily({
    clusterIP: '10.96.7.1',
    externalIPs: ['192.0.2.1'],
    loadBalancerIPs: ['203.0.113.9'],
    endpoints: suffixes.map((n) => at('10.244.1.', n)),
  });
  const ipv6 = inFamily({
    clusterIP: 'fd00:96::1',
    endpoints: suffixes.map((n) => endpoint(`[fd00::${n}]:8080`, { nodeName: 'node-1' })),
  });
  const port = { ...portWith({}, { nodePort: 30_080, ...rest }), families: { ipv4, ipv6 } };
  return nftServiceText(serviceOf([port]), both, context);
};

test.each<[string, Partial<ServicePort>, number]>([
  ['three lines', {}, 3],
  ['three lines with affinity', { affinitySeconds: 600 }, 3],
  ['four lines with policy Local', { externalTrafficPolicy: 'Local' }, 4],
  ['four lines with affinity and policy Local', { affinitySeconds: 600, externalTrafficPolicy: 'Local' }, 4],
])('an endpoint that comes changes %s in each family', (_title, rest, lines) => {
  const [before, after] = [everywhere([5, 6], rest), everywhere([5, 6, 7], rest)].map((text) => text.split('\n'));
  const changed = [
    ...after!.filter((line) => !before!.includes(line)),
    ...before!.filter((line) => !after!.includes(line)),
  ];
  const isIPv6 = (line: string): boolean => line.includes('fd00:');
  expect([changed.filter((line) => !isIPv6(line)).length, changed.filter(isIPv6).length]).toEqual([lines, lines]);
});

test('internal policy Local has the local endpoints of each node in its list', () => {
  const lines = portLines({ endpoints: [one, two], externalIPs: ['192.0.2.1'] }, { internalTrafficPolicy: 'Local' });
  expect(lines.filter((line) => line.includes('tcp4'))).toEqual([
    'tcp4 { 192.0.2.1 . 80 . ${slot} : 10.244.1.5 . 8080 }',
    'tcp4 { 192.0.2.1 . 80 . ${slot} : 10.244.2.7 . 8080 }',
    '@node=node-1 tcp4 { 10.96.7.1 . 80 . ${slot} : 10.244.1.5 . 8080 }',
    '@node=node-2 tcp4 { 10.96.7.1 . 80 . ${slot} : 10.244.2.7 . 8080 }',
  ]);
});

test('both families are in one file; a profile of one family has only its lines', () => {
  const port = portWith({ endpoints: [one] }, { protocol: 'UDP', nodePort: 30_053 });
  const ipv6 = inFamily({ clusterIP: 'fd00:96::1', endpoints: [endpoint('[fd00::5]:53')] });
  const dual = { ...port, families: { ...port.families, ipv6 } };
  expect(linesOf([dual], { ...both, families: ['ipv6'] })).toEqual([
    'cluster6 { fd00:96::1 }',
    'svc6 { fd00:96::1 . udp . 80 : goto n${count}, :: . udp . 30053 : goto pn${count} }',
    'always6 { :: . udp . 30053 }',
    'udp6 { fd00:96::1 . 80 . ${slot} : fd00::5 . 53, :: . 30053 . ${slot} : fd00::5 . 53 }',
    'loop6 { fd00::5 . fd00::5 }',
  ]);
  const sets = linesOf([dual]).map((line) => line.split(' ')[0]);
  expect(sets).toEqual([
    'cluster4',
    'svc4',
    'always4',
    'udp4',
    '@node=node-1',
    'cluster6',
    'svc6',
    'always6',
    'udp6',
    'loop6',
  ]);
  expect(nftServiceText(serviceOf([port]), { ...both, families: ['ipv6'] }, context)).toBe('');
});

describe('a scheduler', () => {
  const near = { externalTrafficPolicy: 'Local', nodePort: 30_080 } as const;
  const dispatching = (rest: Partial<ServicePort>, more: Partial<Service>): readonly string[] =>
    linesOf([portWith({ endpoints: [one, two] }, rest)], both, more).filter((line) => /^(?:svc|out)4/.test(line));

  test.each<[string, Partial<Service>, string, string]>([
    ['random', { scheduler: 'random' }, 'n${count}', 'l${localCount}'],
    ['round-robin', { scheduler: 'round-robin' }, 'i${count}', 'il${localCount}'],
    ['source-hash', { scheduler: 'source-hash' }, 'h${count}', 'hl${localCount}'],
    ['maglev', { scheduler: 'maglev' }, 'm1009', 'ml1009'],
    ['maglev with another table', { scheduler: 'maglev', maglevSize: 251 }, 'm251', 'ml251'],
    ['of mode ipvs alone', { scheduler: 'wlc' }, 'n${count}', 'l${localCount}'],
  ])('%s names the chains of its lists', (_title, more, list, localList) => {
    expect(dispatching(near, more)).toEqual([
      `svc4 { 10.96.7.1 . tcp . 80 : goto ${list}, 0.0.0.0 . tcp . 30080 : goto p${list} }`,
      `out4 { 0.0.0.0 . tcp . 30080 : goto p${localList} }`,
    ]);
  });

  test('gives way to session affinity', () => {
    expect(dispatching({ affinitySeconds: 600 }, { scheduler: 'maglev' })).toEqual([
      'svc4 { 10.96.7.1 . tcp . 80 : goto s${count}t600 }',
    ]);
  });

  test('is in the comment block, with weights, which the elements of endpoints have, too', () => {
    const weights = [{ label: 'example.com/big', value: 'true', weight: 3 }];
    const service = { ...serviceOf([portWith({ endpoints: [one, two] })]), scheduler: 'maglev', weights } as const;
    const text = nftServiceText(service, both, context).split('\n');
    expect(text.slice(1, 3)).toEqual(['# scheduler maglev 1009', '# weight 3 where example.com/big=true']);
    expect(text.filter((line) => /# endpoint| tcp4 /.test(line)).map((line) => line.replace(/^.* tcp4 /, ''))).toEqual([
      '# endpoint http 10.244.1.5:8080 node-1, weight 3',
      '# endpoint http 10.244.2.7:8080 node-2',
      '{ 10.96.7.1 . 80 . ${slot:3} : 10.244.1.5 . 8080 }',
      '{ 10.96.7.1 . 80 . ${slot} : 10.244.2.7 . 8080 }',
    ]);
  });
});

test('an address that is external twice is one frontend, with its ranges', () => {
  const here = {
    externalIPs: ['203.0.113.9'],
    loadBalancerIPs: ['203.0.113.9'],
    loadBalancerSourceRanges: ['10.0.0.0/8'],
  };
  const lines = portLines({ ...here, endpoints: [one] });
  expect(lines.filter((line) => /always4|fw4/.test(line))).toEqual([
    'always4 { 203.0.113.9 . tcp . 80 }',
    'fw4 { 203.0.113.9 . tcp . 80 }',
  ]);
});

test('a line is never longer than a rule may be', () => {
  const loadBalancerIPs = Array.from(
    { length: 60 },
    (_, n) => `2001:db8:ffff:ffff:ffff:ffff:ffff:${(0x1000 + n).toString(16)}`,
  );
  const loadBalancerSourceRanges = Array.from({ length: 40 }, (_, n) => `2001:db8:${(0x1000 + n).toString(16)}::/48`);
  const endpoints = [endpoint('[fd00:10:244:ffff:ffff:ffff:ffff:ffff]:65535')];
  const ipv6 = inFamily({ clusterIP: 'fd00:96::1', loadBalancerIPs, loadBalancerSourceRanges, endpoints });
  const lines = nftServiceText(serviceOf([{ ...portWith({}), families: { ipv6 } }]), both, context).split('\n');
  const texts = lines.filter((line) => !line.startsWith('#')).map((line) => line.replace(/^@\S+ /, ''));
  expect(Math.max(...texts.map((text) => text.length))).toBeLessThanOrEqual(ruleLimits.ruleBytesMax);
  // No line is left shorter than it needs to be.
  expect(texts.filter((text) => text.includes(' svc6 ')).length).toBeLessThan(6);
  expect(texts.join(' ').match(/ : fd00:10:244:/g)).toHaveLength(61);
});

test('a pod that restarts on one of 1,000 nodes changes four lines of one file', () => {
  const nodes = Array.from({ length: 1_000 }, (_, n) => node(`node-${n}`, { zone: `zone-${n % 3}` }));
  const filesWith = (last: number): ReadonlyMap<string, string> => {
    const endpoints = nodes.map(({ name }, n) =>
      endpoint(`10.${n >> 8}.${n & 255}.${n === 999 ? last : 5}:8080`, { nodeName: name }),
    );
    const port = portWith(
      { endpoints, loadBalancerIPs: ['203.0.113.9'] },
      { nodePort: 30_080, externalTrafficPolicy: 'Local' },
    );
    const profile = profileWith({ mode: 'nftables', nftables: { masqueradeAll: false } });
    return assemble({ nodes, services: [serviceOf([port], 'LoadBalancer')] }, configWith({ profiles: [profile] }), true)
      .files;
  };
  const [before, after] = [filesWith(5), filesWith(6)];
  const changed = [...after.keys()].filter((path) => after.get(path) !== before.get(path));
  expect(changed).toEqual(['profiles/default/services/shop/cart.nft']);
  const old = new Set(before.get(changed[0]!)!.split('\n'));
  // Of the header, of the list, of the local list, and that of the endpoint's own node.
  expect(
    after
      .get(changed[0]!)!
      .split('\n')
      .filter((line) => !old.has(line)),
  ).toHaveLength(4);
});
