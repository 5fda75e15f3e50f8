import { describe, expect, test } from 'vitest';
import { chainsOf, endpointIds, frontendElements, type Half, settingsElements, type TableElement } from './elements.ts';
import { frontendLines, type NftFrontend, readFrontend } from './frontend.ts';
import { listChain, readListName } from './lists.ts';
import { disjoint } from './networks.ts';

const body = { isClusterIP: false, ranges: [], endpoints: [], local: [] } as const;
function frontend(key: string, parts: Partial<Parameters<typeof frontendLines>[0]>): NftFrontend {
  return readFrontend(key, frontendLines({ ...body, ...parts }));
}

const print = ({ set, key, value }: TableElement): string => `${set} ${key}${value && ` : ${value}`}`;
const [a, b] = ['10.244.1.5 . 8080', '10.244.2.7 . 8080'];

test('a frontend reads back from its lines', () => {
  const whole = {
    isClusterIP: true,
    outside: 'local',
    affinitySeconds: 600,
    none: 'drop',
    ranges: ['10.0.0.0/8'],
    endpoints: [a, b],
    local: [b],
    here: ['10.244.2.7'],
  } as const;
  expect(frontend('fd00::1 . sctp . 9', whole)).toEqual({
    key: 'fd00::1 . sctp . 9',
    family: 'ipv6',
    protocol: 'sctp',
    address: 'fd00::1',
    port: 9,
    ...whole,
  });
});

describe('the elements of a frontend', () => {
  test.each<[string, NftFrontend, Half, readonly string[], readonly string[]]>([
    [
      'of a ClusterIP',
      frontend('10.96.0.10 . tcp . 80', { isClusterIP: true, endpoints: [a, b] }),
      'a',
      ['svc4 10.96.0.10 . 6 . 80 : goto n2'],
      [`tcp4 10.96.0.10 . 80 . 0 : ${a}`, `tcp4 10.96.0.10 . 80 . 1 : ${b}`],
    ],
    [
      'in the other half',
      frontend('10.96.0.10 . udp . 53', { endpoints: [a] }),
      'b',
      ['svc4 10.96.0.10 . 17 . 53 : goto n1b'],
      [`udp4 10.96.0.10 . 53 . 65536 : ${a}`],
    ],
    [
      'of a node port with policy Local',
      frontend('0.0.0.0 . tcp . 30080', { outside: 'local', endpoints: [a, b], local: [b] }),
      'b',
      ['svc4 0.0.0.0 . 6 . 30080 : goto pn2b', 'near4 0.0.0.0 . 6 . 30080', 'out4 0.0.0.0 . 6 . 30080 : goto pl1b'],
      [
        `tcp4 0.0.0.0 . 30080 . 65536 : ${a}`,
        `tcp4 0.0.0.0 . 30080 . 65537 : ${b}`,
        `tcp4 0.0.0.0 . 30080 . 98304 : ${b}`,
      ],
    ],
    [
      'with policy Local and no local endpoint',
      frontend('203.0.113.9 . tcp . 80', { outside: 'local', none: 'drop', endpoints: [a] }),
      'a',
      [
        'svc4 203.0.113.9 . 6 . 80 : goto n1',
        'near4 203.0.113.9 . 6 . 80',
        'out4 203.0.113.9 . 6 . 80 : accept',
        'none4 203.0.113.9 . 6 . 80 : drop',
      ],
      [`tcp4 203.0.113.9 . 80 . 0 : ${a}`],
    ],
    [
      'without endpoints, with ranges',
      frontend('203.0.113.9 . tcp . 80', { outside: 'cluster', none: 'refuse', ranges: ['10.0.0.0/8'] }),
      'a',
      [
        'always4 203.0.113.9 . 6 . 80',
        'none4 203.0.113.9 . 6 . 80 : goto refuse',
        'fw4 203.0.113.9 . 6 . 80',
        'allow4 203.0.113.9 . 6 . 80 . 10.0.0.0/8',
      ],
      [],
    ],
    [
      'with session affinity',
      frontend('10.96.0.60 . tcp . 80', { affinitySeconds: 600, endpoints: [a] }),
      'b',
      ['svc4 10.96.0.60 . 6 . 80 : goto s1t600b'],
      [
        'sticky4 10.96.0.60 . 6 . 80',
        'slot4 10.96.0.60 . 6 . 80 . 65536 : da3e:9c16',
        `idb4 10.96.0.60 . 6 . 80 . da3e:9c16 : ${a}`,
      ],
    ],
  ])('%s', (_title, one, half, serving, lists) => {
    const elements = frontendElements(one, half);
    expect(elements.serving.map(print)).toEqual(serving);
    expect(elements.lists.map(print)).toEqual(lists);
  });

  test('the overlay has the key of each frontend, and a verdict for one without endpoints', () => {
    const empty = frontend('10.96.0.10 . tcp . 80', { none: 'refuse' });
    expect(frontendElements(empty, 'b', true).serving.map(print)).toEqual([
      'tkey4 10.96.0.10 . 6 . 80',
      'tsvc4 10.96.0.10 . 6 . 80 : accept',
      'tnone4 10.96.0.10 . 6 . 80 : goto refuse',
    ]);
  });

  test('endpoints on this node and a ClusterIP are shared with other frontends', () => {
    const lists = { outside: 'local', endpoints: [a, b], local: [a], here: ['10.244.1.5'] } as const;
    const one = frontend('10.96.0.10 . tcp . 80', { isClusterIP: true, ...lists });
    expect(frontendElements(one, 'a').shared.map(print)).toEqual([
      'loop4 10.244.1.5 . 10.244.1.5',
      'cluster4 10.96.0.10',
    ]);
  });
});

test('ids are those of each endpoint, whatever the order', () => {
  const list = Array.from({ length: 300 }, (_, at) => `10.244.1.${at % 250} . ${8000 + at}`);
  const [one, other] = [endpointIds(list), endpointIds(list.toReversed())];
  expect(list.every((endpoint) => one.get(endpoint) === other.get(endpoint))).toBe(true);
  expect(new Set(one.values()).size).toBe(300);
});

test('two endpoints with the same 32 bits get different ids', () => {
  // Found by a search for a collision: both digests begin with the same 32 bits.
  const twins = ['10.1.85.53 . 80', '10.1.146.1 . 80'];
  const ids = endpointIds(twins);
  expect(new Set(ids.values()).size).toBe(2);
});

test('settings are elements of both families', () => {
  const settings = ['table 4 address', 'pods 10.0.0.0/8', 'cidr fd00::/108', 'health 32000'];
  expect(settingsElements(settings).map(print)).toEqual([
    'pods4 10.0.0.0/8',
    'cidr6 fd00::/108',
    'health4 32000',
    'health6 32000',
  ]);
});

test.each(['n3', 'l2', 'pn3b', 's3t600', 'r2t10b', 'ps1t86400'])(
  'chain %s reads back, and leads to its half',
  (name) => {
    const commands = listChain(name);
    expect(commands).toContain(`add chain inet sluice ${name}`);
    const isLocal = /^p?[lr]/.test(name);
    const start = (name.endsWith('b') ? 65_536 : 0) + (isLocal ? 32_768 : 0);
    const picks = commands.filter((one) => one.includes('numgen'));
    expect(picks.length).toBeGreaterThan(0);
    expect(picks.every((one) => (start === 0 ? !one.includes('offset') : one.includes(`offset ${start} map`)))).toBe(
      true,
    );
    expect(readListName(name)).toMatchObject({ isHalfB: name.endsWith('b'), isNodePort: name.startsWith('p') });
  },
);

test.each(['services4', 'refuse', 'n', 'x3', 'n3t5', 's3'])('%s is not the chain of a list', (name) => {
  expect(readListName(name)).toBeUndefined();
});

test('chains of a frontend are those that its verdicts lead to', () => {
  const one = frontend('0.0.0.0 . tcp . 30080', {
    outside: 'local',
    affinitySeconds: 5,
    endpoints: [a, b],
    local: [a],
  });
  expect(chainsOf(one, 'b')).toEqual(['ps2t5b', 'pr1t5b']);
  expect(chainsOf({ ...one, local: [] }, 'a')).toEqual(['ps2t5']);
});

test.each([
  [
    ['10.0.0.0/8', '10.1.0.0/16', '10.2.3.4', '192.0.2.1'],
    ['10.0.0.0/8', '192.0.2.1'],
  ],
  [['0.0.0.0/0', '10.0.0.0/8'], ['0.0.0.0/0']],
  [
    ['fd00::/8', 'fd00::1', '10.0.0.0/8'],
    ['10.0.0.0/8', 'fd00::/8'],
  ],
  [['10.0.0.0/8', '10.0.0.0/8'], ['10.0.0.0/8']],
])('of %s the networks that lie in no other are %s', (networks, left) => {
  expect(disjoint(networks)).toEqual(left);
});
