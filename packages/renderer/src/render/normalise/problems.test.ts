import { expect, test } from 'vitest';
import {
  type Changes,
  config,
  endpoint,
  endpoints,
  lines,
  node,
  profile,
  normalised,
  service,
  slice,
} from '../builders.fixture.ts';
import type { KubeObject } from '../model/kube.ts';

const balancer = (more: Changes, ...ips: string[]): KubeObject =>
  service(
    'web',
    { type: 'LoadBalancer', ports: [{ name: 'http', port: 80, nodePort: 30_080 }], ...more },
    { status: { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } } },
  );

/** The levels from warning on, for a change that is all there is. */
function found(change: readonly KubeObject[]): string[] {
  const { problems } = normalised(change);
  return lines(problems.filter((one) => one.level === 'error' || one.level === 'warning'));
}

const six = (...addresses: string[]): Changes => ({
  addressType: 'IPv6',
  endpoints: addresses.map((one) => endpoint(one)),
});
const foreign = { 'kubernetes.io/service-name': 'web', 'service.kubernetes.io/service-proxy-name': 'x' };
const ofHeadless = { 'kubernetes.io/service-name': 'web', 'service.kubernetes.io/headless': '' };
const notReady = { endpoints: [endpoint('10.0.0.1', { conditions: { ready: false } })] };
const leaving = {
  endpoints: [endpoint('10.0.0.1', { conditions: { ready: false, serving: true, terminating: true } })],
};

test.each<[string, readonly KubeObject[], readonly string[]]>([
  ['nothing is wrong', [service('web'), slice('web')], []],
  [
    'an endpoint at the ClusterIP of another Service',
    [
      service('web'),
      slice('web', { endpoints: [endpoint('10.96.0.2')] }),
      service('b', { clusterIP: '10.96.0.2' }),
      slice('b'),
    ],
    ['error ADDRESS_FORBIDDEN Service web#'],
  ],
  [
    'an endpoint that NAT64 leads to the ClusterIP of another Service',
    [
      service('web', { clusterIP: 'fd00:96::1', ipFamilies: ['IPv6'] }),
      slice('web', six('64:ff9b::a60:2')),
      service('b', { clusterIP: '10.96.0.2' }),
      slice('b'),
    ],
    ['error ADDRESS_FORBIDDEN Service web#'],
  ],
  [
    'a ClusterIP that is the address of a Node',
    [service('web', { clusterIP: '192.0.2.11' }), slice('web'), node('a')],
    ['warning SERVICE_SHADOWS Service web#spec.clusterIP'],
  ],
  [
    'an external IP that is the ClusterIP of another Service, on another port',
    [
      service('web', { externalIPs: ['192.0.2.11', '10.96.0.2'] }),
      slice('web'),
      service('b', { clusterIP: '10.96.0.2', ports: [{ name: 'http', port: 81, targetPort: 8080 }] }),
      slice('b'),
      node('a'),
    ],
    ['warning SERVICE_SHADOWS Service web#spec.externalIPs.1'],
  ],
  [
    'the node ports of SSH and the kubelet',
    [
      service('web', {
        type: 'NodePort',
        ports: [
          { name: 'http', port: 80, nodePort: 22 },
          { name: 'more', port: 81, nodePort: 10_250 },
          { name: 'fine', port: 82, nodePort: 10_251 },
        ],
      }),
      slice('web', { ports: ['http', 'more', 'fine'].map((name) => ({ name, port: 8080 })) }),
    ],
    ['warning SERVICE_SHADOWS Service web#spec.ports', 'warning SERVICE_SHADOWS Service web#spec.ports'],
  ],
  ['a slice without its Service', [slice('web')], ['warning SLICE_ORPHANED EndpointSlice web-1#']],
  ['Endpoints without their Service', [endpoints('web')], ['warning SLICE_ORPHANED Endpoints web#']],
  ['empty Endpoints without a Service are for leader election', [endpoints('web', { addresses: [] })], []],
  [
    'a slice of an invalid Service is not orphaned',
    [service('web', { type: 'x' }), slice('web')],
    ['error FIELD_VALUE Service web#spec.type'],
  ],
  ['a slice of a headless Service', [service('web', { clusterIP: 'None' }), slice('web')], []],
  [
    'no slice at all beside another',
    [service('web'), slice('web'), service('b', { clusterIP: '10.96.0.2' })],
    ['warning SERVICE_WITHOUT_ENDPOINTS Service b#spec.selector'],
  ],
  [
    'an empty slice',
    [service('web'), slice('web', { endpoints: [] })],
    ['warning SERVICE_WITHOUT_ENDPOINTS Service web#spec.selector'],
  ],
  [
    'no endpoint is ready',
    [service('web'), slice('web', notReady)],
    ['warning SERVICE_WITHOUT_ENDPOINTS Service web#spec.selector'],
  ],
  ['an endpoint terminates and still serves', [service('web'), slice('web', leaving)], []],
  ['no endpoints, and no selector', [service('web', { selector: undefined }), slice('web', { endpoints: [] })], []],
  [
    'no slice has the port',
    [service('web'), slice('web', { ports: [{ name: 'web', port: 8080 }] })],
    ['warning OBJECT_IGNORED EndpointSlice web-1#ports.0', 'warning ENDPOINT_WITHOUT_PORT Service web#spec.ports.0'],
  ],
  [
    'one of two ports is nowhere',
    [
      service('web', {
        ports: [
          { name: 'http', port: 80 },
          { name: 'metrics', port: 81 },
        ],
      }),
      slice('web'),
    ],
    ['warning ENDPOINT_WITHOUT_PORT Service web#spec.ports.1'],
  ],
  [
    'a slice that is labelled as one of a headless Service',
    [service('web', { selector: undefined }), slice('web', {}, { labels: ofHeadless })],
    ['warning OBJECT_IGNORED EndpointSlice web-1#metadata.labels.service.kubernetes.io/headless'],
  ],
  [
    'a slice of a headless Service, labelled as such',
    [service('web', { clusterIP: 'None' }), slice('web', {}, { labels: ofHeadless })],
    [],
  ],
  ['a slice with the name of another proxy counts', [service('web'), slice('web', {}, { labels: foreign })], []],
  [
    'both are assigned to another proxy',
    [
      service('web', {}, { labels: { 'service.kubernetes.io/service-proxy-name': 'x' } }),
      slice('web', {}, { labels: foreign }),
    ],
    [],
  ],
  [
    'endpoints of a family without ClusterIP',
    [service('web'), slice('web'), slice('web', six('fd00::1'), { name: 'w' })],
    ['warning OBJECT_IGNORED EndpointSlice w#'],
  ],
  [
    'an external IP of a family without ClusterIP',
    [service('web', { externalIPs: ['192.0.2.1', 'fd00::1'] }), slice('web')],
    ['warning OBJECT_IGNORED Service web#spec.externalIPs.1'],
  ],
  [
    'a load-balancer address of a family without ClusterIP',
    [balancer({}, '192.0.2.9', 'fd00::9'), slice('web')],
    ['warning OBJECT_IGNORED Service web#status.loadBalancer.ingress.1.ip'],
  ],
  [
    'a source range of a family without ClusterIP leaves the other open',
    [balancer({ loadBalancerSourceRanges: ['fd00::/8'] }, '192.0.2.9'), slice('web')],
    [
      'warning OBJECT_IGNORED Service web#spec.loadBalancerSourceRanges',
      'warning OBJECT_IGNORED Service web#spec.loadBalancerSourceRanges.0',
    ],
  ],
  [
    'no warning for a source range that admits all sources',
    [balancer({ loadBalancerSourceRanges: ['0.0.0.0/0'] }, '192.0.2.9'), slice('web')],
    [],
  ],
  [
    'no health-check node port',
    [balancer({ externalTrafficPolicy: 'Local' }, '192.0.2.9'), slice('web')],
    ['warning FIELD_MISSING Service web#spec'],
  ],
])('%s', (_title, change, expected) => {
  expect(found(change)).toEqual(expected);
});

test('does not warn of slices of the base with a port that the change removes', () => {
  const two = [
    { name: 'http', port: 80 },
    { name: 'metrics', port: 81 },
  ];
  const ports = [
    { name: 'http', port: 8080 },
    { name: 'metrics', port: 8081 },
  ];
  const base = [service('web', { ports: two }), slice('web', { ports })];
  const change = [service('web', { clusterIP: undefined, ports: [{ name: 'http', port: 80 }] })];
  expect(lines(normalised(change, { base }).problems)).toEqual([]);
});

test('does not report missing endpoints beside an invalid slice', () => {
  const broken = slice('web', { endpoints: [endpoint('127.0.0.1')] });
  expect(found([service('web'), broken])).toEqual([
    'error ADDRESS_FORBIDDEN EndpointSlice web-1#endpoints.0.addresses.0',
  ]);
});

test('a Service without endpoints is a note if no manifest has endpoints, and a warning if they are complete', () => {
  expect(lines(normalised([service('web')]).problems)).toEqual([
    'note SERVICE_WITHOUT_ENDPOINTS Service web#spec.selector',
  ]);
  const complete = normalised([service('web')], { config: config({ complete: true }) });
  expect(lines(complete.problems)).toEqual(['warning SERVICE_WITHOUT_ENDPOINTS Service web#spec.selector']);
});

const ip = (clusterIP: string, more: Changes = {}): Changes => ({ selector: undefined, clusterIP, ...more });
const np = (port: number, nodePort: number, protocol = 'TCP'): Changes => ({
  type: 'NodePort',
  ports: [{ port, nodePort, protocol }],
});
const local = (health: number): Changes => ({
  type: 'LoadBalancer',
  externalTrafficPolicy: 'Local',
  healthCheckNodePort: health,
  ports: [{ port: 80, nodePort: health - 1000 }],
});

test.each<[string, Changes, Changes, string | undefined]>([
  ['one ClusterIP and port', ip('10.96.0.1'), ip('10.96.0.1'), 'VIP_CONFLICT Service b#spec.clusterIP'],
  ['one ClusterIP, two ports', ip('10.96.0.1'), ip('10.96.0.1', { ports: [{ port: 81 }] }), undefined],
  [
    'one ClusterIP, two protocols',
    ip('10.96.0.1'),
    ip('10.96.0.1', { ports: [{ port: 80, protocol: 'UDP' }] }),
    undefined,
  ],
  [
    'one external IP',
    ip('10.96.0.1', { externalIPs: ['192.0.2.1'] }),
    ip('10.96.0.2', { externalIPs: ['192.0.2.2', '192.0.2.1'] }),
    'VIP_CONFLICT Service b#spec.externalIPs.1',
  ],
  [
    "an external IP that is another's ClusterIP",
    ip('10.96.0.1'),
    ip('10.96.0.2', { externalIPs: ['10.96.0.1'] }),
    'VIP_CONFLICT Service b#spec.externalIPs.0',
  ],
  [
    'one IPv6 ClusterIP',
    ip('10.96.0.1', { clusterIPs: ['10.96.0.1', 'fd00::1'] }),
    ip('fd00::1'),
    'VIP_CONFLICT Service b#spec.clusterIP',
  ],
  [
    'one node port',
    ip('10.96.0.1', np(80, 30_001)),
    ip('10.96.0.2', np(80, 30_001)),
    'NODE_PORT_CONFLICT Service b#spec.ports.0.nodePort',
  ],
  ['one node port, two protocols', ip('10.96.0.1', np(80, 30_001)), ip('10.96.0.2', np(80, 30_001, 'UDP')), undefined],
  [
    'a node port that is for health checks',
    ip('10.96.0.1', local(32_000)),
    ip('10.96.0.2', np(80, 32_000)),
    'NODE_PORT_CONFLICT Service b#spec.ports.0.nodePort',
  ],
  [
    'one health-check port',
    ip('10.96.0.1', local(32_000)),
    ip('10.96.0.2', { ...local(32_000), ports: [{ port: 80, nodePort: 30_500 }] }),
    'NODE_PORT_CONFLICT Service b#spec.healthCheckNodePort',
  ],
])('two Services with %s', (_title, first, second, expected) => {
  const all = normalised([service('b', second), service('a', first)]).problems;
  const problems = all.filter(({ code }) => code !== 'EXTERNAL_IPS_END');
  expect(lines(problems)).toEqual(expected === undefined ? [] : [`error ${expected}`]);
  const naming = problems.filter((one) => / Service shop\/a has it at Service a#spec\.\S+:1:1$/.test(one.message));
  expect(naming).toEqual(problems);
});

const options = {
  ipvs: {
    mode: 'ipvs',
    ipvs: { scheduler: 'rr', excludeCIDRs: [], strictARP: false, timeouts: { tcp: 0, tcpFin: 0, udp: 0 } },
  },
  iptables: { mode: 'iptables' },
  nftables: {
    mode: 'nftables',
    nftables: { masqueradeAll: false, tcpReset: false, affinityClients: 1024, endpointCounters: false },
  },
} as const;
/** A profile for each mode; with a pool, for its nodes alone. */
const inMode = (...named: readonly (readonly [keyof typeof options, string?])[]) => ({
  config: config({
    profiles: named.map(([mode, pool]) => ({
      ...profile(pool ?? 'default', options[mode]),
      nodeSelector: pool === undefined ? {} : { matchLabels: { pool } },
    })),
  }),
});
/** Node a is in pool edge. */
const twoNodes = ['a', 'b'].map((name, at) => {
  const address = (type: string, network: string) => ({ type, address: `${network}.1${at + 1}` });
  const addresses = [address('InternalIP', '192.0.2'), address('ExternalIP', '198.51.100')];
  return node(name, { status: { addresses } }, name === 'a' ? { pool: 'edge' } : {});
});

test.each<[string, KubeObject, ReturnType<typeof inMode>, readonly string[]]>([
  ['a load balancer', balancer({}, '192.0.2.12'), inMode(['ipvs']), ['status.loadBalancer.ingress.0.ip']],
  [
    'an external address of a node',
    balancer({}, '198.51.100.11'),
    inMode(['ipvs']),
    ['status.loadBalancer.ingress.0.ip'],
  ],
  [
    'two addresses',
    balancer({}, '192.0.2.11', '192.0.2.12'),
    inMode(['ipvs']),
    ['status.loadBalancer.ingress.0.ip', 'status.loadBalancer.ingress.1.ip'],
  ],
  ['an external IP', service('web', { externalIPs: ['192.0.2.12'] }), inMode(['ipvs']), ['spec.externalIPs.0']],
  ['a ClusterIP', service('web', { clusterIP: '192.0.2.12' }), inMode(['ipvs']), ['spec.clusterIP']],
  [
    'a node of another mode',
    balancer({}, '192.0.2.12'),
    inMode(['ipvs', 'edge'], ['iptables']),
    ['status.loadBalancer.ingress.0.ip'],
  ],
  ['the only node of mode ipvs', balancer({}, '192.0.2.11'), inMode(['ipvs', 'edge'], ['iptables']), []],
  ['a load balancer of mode iptables', balancer({}, '192.0.2.12'), inMode(['iptables']), []],
  ['a load balancer of mode nftables', balancer({}, '192.0.2.12'), inMode(['nftables']), []],
  ['an external IP of mode nftables', service('web', { externalIPs: ['192.0.2.12'] }), inMode(['nftables']), []],
  ['an address of no node', balancer({}, '192.0.2.99'), inMode(['ipvs']), []],
])('refuses the address of another node on kube-ipvs0: %s', (_title, one, more, expected) => {
  const { problems } = normalised([one, slice('web'), ...twoNodes], more);
  const errors = problems.filter(({ level }) => level === 'error' || level === 'warning');
  expect(lines(errors)).toEqual(expected.map((path) => `error SERVICE_SHADOWS Service web#${path}`));
});

test('reports a load-balancer address of two Services with both places', () => {
  const other = service(
    'zzz',
    {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.2',
      selector: undefined,
      ports: [{ name: 'http', port: 80, nodePort: 30_081 }],
    },
    { status: { loadBalancer: { ingress: [{ ip: '192.0.2.9' }] } } },
  );
  const { problems } = normalised([other, balancer({ selector: undefined }, '192.0.2.9')]);
  expect(lines(problems)).toEqual(['error VIP_CONFLICT Service zzz#status.loadBalancer.ingress.0.ip']);
  expect(problems[0]?.message).toContain('Service shop/web has it at Service web#status.loadBalancer.ingress.0.ip');
});
