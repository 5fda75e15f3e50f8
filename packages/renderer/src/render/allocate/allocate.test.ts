import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { allocate } from './allocate.ts';
import type { AllocationRequest, Taken } from './request.ts';
import type { Allocation } from './allocation.ts';

const config = {
  serviceCIDRs: { ipv4: ['10.96.0.0/24'], ipv6: ['fd00:96::/112'] },
  nodePortRange: { from: 30000, to: 30200 },
};
const noneTaken: Taken = { addresses: new Set(), nodePorts: new Set() };

/** Its places name the path, so that a test can see which field a problem points at. */
const origin = {
  place: (path: readonly (string | number)[]) => ({ file: `shop.yaml#${path.join('.')}`, line: 1, column: 1 }),
};
const http = { name: 'http', protocol: 'TCP', port: 80, nodePort: 0 } as const;

function request(name: string, more: Partial<AllocationRequest> = {}): AllocationRequest {
  return {
    namespace: 'shop',
    name,
    families: ['ipv4'],
    clusterIPs: [],
    ports: [http],
    wantsNodePorts: false,
    healthCheckNodePort: 'none',
    origin,
    ...more,
  };
}

const held = (name: string, more: Partial<Allocation> = {}): Allocation => ({
  namespace: 'shop',
  name,
  file: `allocations/shop/${name}.yaml`,
  clusterIPs: [],
  nodePorts: {},
  ...more,
});

const run = (requests: readonly AllocationRequest[], allocations: readonly Allocation[] = [], taken = noneTaken) =>
  allocate(requests, taken, config, allocations);

test('a Service always gets the first choice of its name', () => {
  const wish = { families: ['ipv4', 'ipv6'], wantsNodePorts: true, healthCheckNodePort: 'wanted' } as const;
  // These numbers are a promise: another hash or another order of choices would move every Service of every user.
  expect(run([request('web', wish)]).created).toEqual([
    {
      namespace: 'shop',
      name: 'web',
      clusterIPs: ['10.96.0.223', 'fd00:96::8f13'],
      nodePorts: { 'http/TCP': 30175 },
      healthCheckNodePort: 30050,
    },
  ]);
});

test('prefers the manifest to the file, and the file to a new number', () => {
  const file = held('web', { clusterIPs: ['10.96.0.9', 'fd00:96::9'], nodePorts: { 'http/TCP': 30009 } });
  const both = request('web', { families: ['ipv6', 'ipv4'], clusterIPs: ['10.96.0.7'], wantsNodePorts: true });
  const result = run([both], [file]);
  expect(result.given.get('shop/web')).toMatchObject({
    clusterIPs: ['fd00:96::9', '10.96.0.7'],
    nodePorts: { 'http/TCP': 30009 },
  });
  expect(result.created).toEqual([]);
  expect(result.problems).toMatchObject([
    { code: 'ALLOCATION_INVALID', level: 'note', at: { file: 'shop.yaml#spec.clusterIPs.0' } },
  ]);
});

test('adds a missing number to a file and keeps the others', () => {
  const file = held('web', { clusterIPs: ['10.96.0.9'] });
  const { created } = run([request('web', { wantsNodePorts: true })], [file]);
  expect(created).toMatchObject([{ file: 'allocations/shop/web.yaml', clusterIPs: ['10.96.0.9'] }]);
  expect(Object.keys(created[0]?.nodePorts ?? {})).toEqual(['http/TCP']);
});

test('one port number over TCP and UDP gets one node port, another number its own', () => {
  const dns = [
    { name: 'dns', protocol: 'UDP', port: 53, nodePort: 0 },
    { name: 'dns-tcp', protocol: 'TCP', port: 53, nodePort: 0 },
    { name: 'metrics', protocol: 'TCP', port: 9153, nodePort: 0 },
  ] as const;
  const ports = run([request('dns', { ports: dns, wantsNodePorts: true })]).given.get('shop/dns')?.nodePorts ?? {};
  expect(ports['dns-tcp/TCP']).toBe(ports['dns/UDP']);
  expect(ports['metrics/TCP']).not.toBe(ports['dns/UDP']);
});

test('a Service without node ports gets none, although its file has one', () => {
  const file = held('web', { clusterIPs: ['10.96.0.9'], nodePorts: { 'http/TCP': 30009 } });
  expect(run([request('web')], [file]).given.get('shop/web')?.nodePorts).toEqual({});
});

test.each<[string, readonly AllocationRequest[], readonly Allocation[], readonly string[]]>([
  [
    'two files with one address are both named',
    [],
    [held('b', { clusterIPs: ['10.96.0.9'] }), held('a', { clusterIPs: ['10.96.0.9'] })],
    [
      'ALLOCATION_CONFLICT allocations/shop/b.yaml Cannot use 10.96.0.9 for two Services: both allocations/shop/a.yaml and allocations/shop/b.yaml have it',
    ],
  ],
  [
    'a node port and a health-check port are one kind of number',
    [],
    [held('a', { nodePorts: { 'http/TCP': 30009 } }), held('b', { healthCheckNodePort: 30009 })],
    [
      'ALLOCATION_CONFLICT allocations/shop/b.yaml Cannot use 30009 for two Services: both allocations/shop/a.yaml and allocations/shop/b.yaml have it',
    ],
  ],
  [
    'a manifest may not take what the file of another Service holds',
    [request('a', { clusterIPs: ['10.96.0.9'] })],
    [held('b', { clusterIPs: ['10.96.0.9'] })],
    [
      'ALLOCATION_CONFLICT shop.yaml#spec.clusterIPs.0 Cannot use 10.96.0.9: allocations/shop/b.yaml allocates it to Service shop/b',
    ],
  ],
  [
    'a manifest may repeat what its own file holds',
    [request('a', { clusterIPs: ['10.96.0.9'] })],
    [held('a', { clusterIPs: ['10.96.0.9'] })],
    [],
  ],
])('%s', (_title, requests, allocations, expected) => {
  const { problems } = run(requests, allocations);
  expect(problems.map(({ code, at, message }) => `${code} ${at?.file} ${message}`)).toEqual(expected);
});

test('reports an exhausted range for the Service that gets no number', () => {
  const tiny = { serviceCIDRs: { ipv4: ['10.96.0.0/29'] }, nodePortRange: { from: 30000, to: 30000 } };
  const six = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => request(name));
  const { given, problems } = allocate(six, noneTaken, tiny, []);
  // Of eight addresses the network's, the broadcast and 10.96.0.1, which is default/kubernetes, are not given out.
  expect([...given.values()].flatMap((allocation) => allocation.clusterIPs).toSorted()).toEqual(
    [2, 3, 4, 5, 6].map((last) => `10.96.0.${last}`),
  );
  expect(problems).toMatchObject([{ code: 'ALLOCATION_EXHAUSTED', object: 'Service shop/f' }]);
});

test('reports a family without a service CIDR with a hint', () => {
  const { problems } = allocate(
    [request('a', { families: ['ipv6'] })],
    noneTaken,
    { ...config, serviceCIDRs: { ipv4: ['10.96.0.0/24'] } },
    [],
  );
  expect(problems).toMatchObject([{ code: 'ALLOCATION_EXHAUSTED', at: { file: 'shop.yaml#spec.ipFamilies' } }]);
});

/** Services of one namespace with every wish that matters; few names, so that sets of them overlap. */
const wishes = fc.uniqueArray(
  fc.record({
    name: fc.stringMatching(/^[a-z]$/),
    dual: fc.boolean(),
    wantsNodePorts: fc.boolean(),
    health: fc.boolean(),
    own: fc.option(fc.integer({ min: 2, max: 254 }), { nil: undefined }),
  }),
  { selector: ({ name }) => name, maxLength: 20 },
);
type Wish = { name: string; dual: boolean; wantsNodePorts: boolean; health: boolean; own: number | undefined };

function toRequests(list: readonly Wish[]): AllocationRequest[] {
  return list.map(({ name, dual, wantsNodePorts, health, own }, index) =>
    request(name, {
      families: dual ? ['ipv4', 'ipv6'] : ['ipv4'],
      clusterIPs: own === undefined ? [] : [`10.96.0.${2 + ((own + index) % 250)}`],
      wantsNodePorts,
      healthCheckNodePort: health ? 'wanted' : 'none',
    }),
  );
}

test('the order of Services and files does not matter', () => {
  fc.assert(
    fc.property(wishes, fc.infiniteStream(fc.nat()), (list, random) => {
      const requests = toRequests(list);
      const [half] = [run(requests.slice(0, list.length / 2)).created];
      const shuffled = requests
        .map((value) => ({ value, at: random.next().value as number }))
        .toSorted((a, b) => a.at - b.at);
      const [one, other] = [
        run(requests, half),
        run(
          shuffled.map(({ value }) => value),
          half.toReversed(),
        ),
      ];
      expect(other.created).toEqual(one.created);
      expect([...other.given]).toEqual([...one.given]);
    }),
    runs(100),
  );
});

test('no two Services share a number', () => {
  fc.assert(
    fc.property(wishes, (list) => {
      const requests = toRequests(list);
      const fresh = run(requests).created.flatMap(({ clusterIPs, nodePorts, healthCheckNodePort }) => [
        ...clusterIPs,
        ...Object.values(nodePorts),
        ...(healthCheckNodePort === undefined ? [] : [healthCheckNodePort]),
      ]);
      const own = new Set(requests.flatMap(({ clusterIPs }) => clusterIPs));
      const all = [...fresh, ...own];
      expect(new Set(all).size).toBe(all.length);
    }),
    runs(100),
  );
});

test('numbers in files stay when Services are added', () => {
  fc.assert(
    fc.property(wishes, wishes, (before, more) => {
      const first = run(toRequests(before.map((wish) => ({ ...wish, own: undefined }))));
      const names = new Set(before.map(({ name }) => name));
      const added = more.filter(({ name }) => !names.has(name)).map((wish) => ({ ...wish, own: undefined }));
      const second = run(toRequests([...before.map((wish) => ({ ...wish, own: undefined })), ...added]), first.created);
      for (const [key, allocation] of first.given) expect(second.given.get(key)).toEqual(allocation);
      expect(second.created.map(({ name }) => name)).toEqual(
        run(toRequests(added), first.created).created.map(({ name }) => name),
      );
    }),
    runs(100),
  );
});

test('skips numbers that are in use', () => {
  const first = run([request('web', { wantsNodePorts: true })]).given.get('shop/web');
  const taken = { addresses: new Set(first?.clusterIPs), nodePorts: new Set(Object.values(first?.nodePorts ?? {})) };
  const second = run([request('web', { wantsNodePorts: true })], [], taken).given.get('shop/web');
  expect(second?.clusterIPs).not.toEqual(first?.clusterIPs);
  expect(second?.nodePorts).not.toEqual(first?.nodePorts);
});
