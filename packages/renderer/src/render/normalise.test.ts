import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  type Changes,
  config,
  endpoint,
  endpoints,
  lines,
  modelOf,
  node,
  normalised,
  service,
  slice,
} from './builders.fixture.ts';
import type { KubeObject } from './model/kube.ts';
import type { PortOfFamily, ServicePort } from './model/model.ts';

function portOf(...change: readonly KubeObject[]): ServicePort {
  const port = modelOf(change).services[0]?.ports[0];
  if (!port) throw new Error('the model has no port');
  return port;
}

const v4 = (...change: readonly KubeObject[]): PortOfFamily | undefined => portOf(...change).families.ipv4;
const texts = (...change: readonly KubeObject[]): string[] => (v4(...change)?.endpoints ?? []).map((one) => one.text);

test('a Service becomes a port per family with its endpoints', () => {
  const web = service('web', {
    type: 'NodePort',
    clusterIPs: ['10.96.0.1', 'fd00:96::1'],
    sessionAffinity: 'ClientIP',
    ports: [{ name: 'http', port: 80, nodePort: 30_080 }],
  });
  const six = slice('web', { addressType: 'IPv6', endpoints: [endpoint('fd00::5')] }, { name: 'web-6' });
  const common = { ready: true, serving: true, terminating: false, hintZones: [], hintNodes: [] };
  const front = { externalIPs: [], loadBalancerIPs: [], loadBalancerSourceRanges: [] };
  expect(modelOf([web, slice('web'), six]).services).toEqual([
    {
      namespace: 'shop',
      name: 'web',
      type: 'NodePort',
      ports: [
        {
          key: 'shop/web:http',
          name: 'http',
          protocol: 'TCP',
          port: 80,
          nodePort: 30_080,
          healthCheckNodePort: 0,
          internalTrafficPolicy: 'Cluster',
          externalTrafficPolicy: 'Cluster',
          affinitySeconds: 10_800,
          families: {
            ipv4: {
              ...front,
              clusterIP: '10.96.0.1',
              endpoints: [{ address: '10.244.1.5', port: 8080, text: '10.244.1.5:8080', ...common }],
            },
            ipv6: {
              ...front,
              clusterIP: 'fd00:96::1',
              endpoints: [{ address: 'fd00::5', port: 8080, text: '[fd00::5]:8080', ...common }],
            },
          },
        },
      ],
    },
  ]);
});

test.each<[string, KubeObject]>([
  ['headless', service('web', { clusterIP: 'None' })],
  ['headless by its list', service('web', { clusterIP: undefined, clusterIPs: ['None'] })],
  ['ExternalName', service('web', { type: 'ExternalName', clusterIP: undefined, externalName: 'example.com' })],
  ['with service-proxy-name', service('web', {}, { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } })],
])('a Service that is %s has no rules', (_title, web) => {
  const { model, problems } = normalised([web, slice('web')]);
  expect(model.services).toEqual([]);
  expect(problems.filter((one) => one.level !== 'note')).toEqual([]);
});

const at = (...addresses: string[]): Changes => ({ endpoints: addresses.map((address) => endpoint(address)) });
const terminating = (address: string, more: Changes = {}) =>
  endpoint(address, { conditions: { ready: false, serving: true, terminating: true }, ...more });

test('endpoints are merged over slices and sorted by text', () => {
  const one = slice('web', at('10.244.9.1', '10.244.1.5'));
  const two = slice('web', at('10.244.10.1', '10.244.1.5'), { name: 'web-2' });
  expect(texts(service('web'), two, one)).toEqual(['10.244.1.5:8080', '10.244.10.1:8080', '10.244.9.1:8080']);
});

test.each<[string, readonly Changes[], boolean]>([
  ['the later one counts', [endpoint('10.0.0.1', { conditions: { ready: false } }), endpoint('10.0.0.1')], true],
  [
    'the later one counts, ready or not',
    [endpoint('10.0.0.1'), endpoint('10.0.0.1', { conditions: { ready: false } })],
    false,
  ],
  ['a later terminating one does not', [endpoint('10.0.0.1'), terminating('10.0.0.1')], true],
  ['a terminating one gives way', [terminating('10.0.0.1'), endpoint('10.0.0.1')], true],
])('of two endpoints with one address and port %s', (_title, list, ready) => {
  const slices = list.map((one, index) => slice('web', { endpoints: [one as never] }, { name: `web-${index}` }));
  const found = v4(service('web'), ...slices.toReversed())?.endpoints;
  expect(found).toHaveLength(1);
  expect(found?.[0]).toMatchObject({ ready });
});

test('copies conditions, node, zone and hints', () => {
  const hints = { forZones: [{ name: 'b' }, { name: 'a' }, { name: 'b' }], forNodes: [{ name: 'n-1' }] };
  const list = [terminating('10.0.0.1', { nodeName: 'n-1', zone: 'a', hints })];
  expect(v4(service('web'), slice('web', { endpoints: list }))?.endpoints[0]).toMatchObject({
    ready: false,
    serving: true,
    terminating: true,
    nodeName: 'n-1',
    zone: 'a',
    hintZones: ['a', 'b'],
    hintNodes: ['n-1'],
  });
});

const unnamed = { ports: [{ port: 80 }] };

test.each<[string, Changes, Changes, readonly string[]]>([
  ['a port without a name meets a port without a name', unnamed, { ports: [{ port: 8080 }] }, ['10.244.1.5:8080']],
  ['a port without a name meets an empty name', unnamed, { ports: [{ name: '', port: 8080 }] }, ['10.244.1.5:8080']],
  ['a port without a name meets no named one', unnamed, {}, []],
  ['the protocol must be the same', {}, { ports: [{ name: 'http', port: 8080, protocol: 'UDP' }] }, []],
  [
    'the slice says the number',
    { ports: [{ name: 'http', port: 80, targetPort: 'web' }] },
    { ports: [{ name: 'http', port: 9 }] },
    ['10.244.1.5:9'],
  ],
])('%s', (_title, spec, fields, expected) => {
  expect(texts(service('web', spec), slice('web', fields))).toEqual(expected);
});

test('Endpoints are read as slices of both families, not-ready ones too', () => {
  const addresses = [{ ip: '10.0.0.1', nodeName: 'n-1' }, { ip: 'fd00::1' }];
  const both = service('web', { clusterIPs: ['10.96.0.1', 'fd00:96::1'] });
  const port = portOf(both, endpoints('web', { addresses, notReadyAddresses: [{ ip: '10.0.0.2' }] }));
  expect(port.families.ipv4?.endpoints).toMatchObject([
    { text: '10.0.0.1:8080', ready: true, serving: true, nodeName: 'n-1' },
    { text: '10.0.0.2:8080', ready: false, serving: false },
  ]);
  expect(port.families.ipv6?.endpoints).toMatchObject([{ text: '[fd00::1]:8080', ready: true }]);
});

test('prefers slices to Endpoints, and reports Endpoints only if they have more addresses', () => {
  const same = normalised([service('web'), slice('web'), endpoints('web')]);
  expect(lines(same.problems)).toEqual([]);
  const other = normalised([service('web'), slice('web'), endpoints('web', { addresses: [{ ip: '10.0.0.9' }] })]);
  expect(other.model).toEqual(same.model);
  expect(lines(other.problems)).toEqual(['note OBJECT_IGNORED Endpoints web#']);
});

test('a renamed port keeps the endpoints of the base', () => {
  const change = [service('web', { clusterIP: undefined, ports: [{ name: 'web', port: 80, targetPort: 8080 }] })];
  const { model, problems } = normalised(change, { base: [service('web'), slice('web')] });
  expect(model.services[0]?.ports[0]?.families.ipv4?.endpoints).toMatchObject([{ text: '10.244.1.5:8080' }]);
  expect(lines(problems)).toEqual(['guess ENDPOINTS_GUESSED Service web#spec.ports.0.name']);
});

test('assigns addresses, ranges and load balancers to their family', () => {
  const spec = {
    type: 'LoadBalancer',
    clusterIPs: ['10.96.0.1', 'fd00:96::1'],
    externalIPs: ['192.0.2.2', '192.0.2.1', '192.0.2.2', '2001:db8::1'],
    loadBalancerSourceRanges: [' 198.51.100.0/24 ', '2001:db8::/32'],
  };
  const status = {
    loadBalancer: { ingress: [{ ip: '192.0.2.9' }, { ip: '2001:db8::9' }, { ip: '192.0.2.8', ipMode: 'Proxy' }] },
  };
  expect(portOf(service('web', spec, { status })).families).toMatchObject({
    ipv4: {
      externalIPs: ['192.0.2.2', '192.0.2.1'],
      loadBalancerIPs: ['192.0.2.9'],
      loadBalancerSourceRanges: ['198.51.100.0/24'],
    },
    ipv6: {
      externalIPs: ['2001:db8::1'],
      loadBalancerIPs: ['2001:db8::9'],
      loadBalancerSourceRanges: ['2001:db8::/32'],
    },
  });
});

test.each([
  ['of one family leaves the ranges of the other', ['203.0.113.0/24', '0.0.0.0/0', 'fd00::/8'], [], ['fd00::/8']],
  ['of IPv6 leaves those of IPv4', ['203.0.113.0/24', '::/0'], ['203.0.113.0/24'], []],
  ['of both leaves none', ['0.0.0.0/0', '::/0'], [], []],
  ['may have blanks', [' 0.0.0.0/0 '], [], []],
  ['is known by its prefix', ['192.0.2.0/0', 'fd00::/8'], [], ['fd00::/8']],
])('ignores a source range of a whole family: it %s', (_title, loadBalancerSourceRanges, ipv4, ipv6) => {
  const clusterIPs = ['10.96.0.1', 'fd00:96::1'];
  const { families } = portOf(service('web', { type: 'LoadBalancer', clusterIPs, loadBalancerSourceRanges }));
  expect([families.ipv4?.loadBalancerSourceRanges, families.ipv6?.loadBalancerSourceRanges]).toEqual([ipv4, ipv6]);
});

test('a Service without a ClusterIP is reported and has no rules', () => {
  const change = [service('web', { type: 'NodePort', clusterIP: undefined })];
  const { model, problems } = normalised(change, { base: [node('n')] });
  expect(model.services).toEqual([]);
  expect(problems).toMatchObject([
    { code: 'SERVICE_WAITS', level: 'note', message: expect.stringContaining('a ClusterIP and node ports (http)') },
  ]);
});

test('allocation gives every number and reports it', () => {
  const change = [service('web', { type: 'LoadBalancer', clusterIP: undefined, externalTrafficPolicy: 'Local' })];
  const { model, created, services, problems } = normalised(change, { allocate: true });
  const port = model.services[0]?.ports[0];
  expect(port?.nodePort).toBeGreaterThanOrEqual(30_000);
  expect(port?.healthCheckNodePort).toBeGreaterThanOrEqual(30_000);
  expect(created).toEqual([
    {
      namespace: 'shop',
      name: 'web',
      clusterIPs: [port?.families.ipv4?.clusterIP],
      nodePorts: { 'http/TCP': port?.nodePort },
      healthCheckNodePort: port?.healthCheckNodePort,
    },
  ]);
  expect(services).toMatchObject([{ object: { kind: 'Service' }, numbers: created[0] }]);
  expect(problems.filter((one) => one.level !== 'note')).toEqual([]);
});

test('a family without a service CIDR is left out with a warning', () => {
  const change = [service('web', { clusterIP: undefined, ipFamilyPolicy: 'RequireDualStack' })];
  const four = config({ serviceCIDRs: { ipv4: ['10.96.0.0/16'] } });
  const { model, problems } = normalised(change, { allocate: true, config: four });
  expect(Object.keys(model.services[0]?.ports[0]?.families ?? {})).toEqual(['ipv4']);
  expect(lines(problems)).toContain('warning SERVICE_WAITS Service web#spec.ipFamilyPolicy');
});

test.each<[string, readonly KubeObject[], readonly KubeObject[]]>([
  ['all in the base', [service('web'), slice('web'), node('n')], []],
  ['the same again as a change', [service('web'), slice('web'), node('n')], [service('web'), slice('web'), node('n')]],
  [
    'a manifest without what the cluster filled in',
    [service('web'), slice('web'), node('n')],
    [service('web', { clusterIP: undefined })],
  ],
])('layers give the same model as one input: %s', (_title, base, change) => {
  const { model, problems } = normalised(change, { base });
  expect(model).toEqual(modelOf([service('web'), slice('web'), node('n')]));
  expect(problems).toEqual([]);
});

/** A small cluster with something of everything, correct and not. */
const cluster: readonly KubeObject[] = [
  service('a', { clusterIPs: ['10.96.0.1', 'fd00:96::1'] }),
  service('b', {
    clusterIP: '10.96.0.2',
    ports: [
      { name: 'x', port: 1 },
      { name: 'y', port: 1, protocol: 'UDP' },
    ],
  }),
  service('c', { clusterIP: '10.96.0.2', ports: [{ name: 'x', port: 1 }] }),
  service('d', { clusterIP: undefined, type: 'NodePort' }),
  service('a', { clusterIP: '10.96.0.7' }, {}, 'again'),
  slice('a', at('10.0.0.2', '10.0.0.1', '10.0.0.3')),
  slice(
    'a',
    { endpoints: [terminating('10.0.0.1', { nodeName: 'm' }), endpoint('10.0.0.4', { nodeName: 'k' })] },
    { name: 'a-2' },
  ),
  slice('a', { addressType: 'IPv6', endpoints: [endpoint('fd00::2'), endpoint('fd00::1')] }, { name: 'a-3' }),
  slice('gone', at('10.0.0.9')),
  endpoints('b', { ports: [{ name: 'y', port: 2, protocol: 'UDP' }] }),
  node('n'),
  node('k', { status: undefined }),
];

test('the order of the input changes neither model nor problems', () => {
  const expected = normalised(cluster, { allocate: true });
  fc.assert(
    fc.property(fc.shuffledSubarray([...cluster], { minLength: cluster.length }), (shuffled) => {
      const { services, ...rest } = normalised(shuffled, { allocate: true });
      expect({ ...rest, services: undefined }).toEqual({ ...expected, services: undefined });
      expect(services.map((one) => one.numbers)).toEqual(expected.services.map((one) => one.numbers));
    }),
    runs(200),
  );
});
