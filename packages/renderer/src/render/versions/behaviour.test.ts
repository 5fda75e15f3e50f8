import { expect, test } from 'vitest';
import { config, endpoint, lines, modelOf, node, normalised, profile, service, slice } from '../builders.fixture.ts';
import type { Profile } from '../model/config.ts';
import type { JsonObject, KubeObject } from '../model/kube.ts';
import { Memo } from '../model/memo.ts';
import { normalise } from '../normalise.ts';
import { render } from '../render.ts';
import { selectEndpoints } from '../select/select.fixture.ts';
import { objectDifferences } from './differences.ts';
import { behaviourOf, servicesOf } from './behaviour.ts';
import { type KubeProxyVersion, kubeProxyVersions } from '../model/version.ts';

const naming = (kubeProxyVersion?: KubeProxyVersion): Profile =>
  profile('default', kubeProxyVersion === undefined ? {} : { kubeProxyVersion });
const of = (version?: KubeProxyVersion) => ({ config: config({ profiles: [naming(version)] }) });

const labelled = (label: string) => ({ 'kubernetes.io/service-name': 'web', [label]: 'x' });
const headless = 'service.kubernetes.io/headless';
const proxyName = 'service.kubernetes.io/service-proxy-name';
const hinted = (hints: JsonObject): KubeObject =>
  slice('web', { endpoints: [endpoint('10.244.1.5', { hints }), endpoint('10.244.1.6', elsewhere)] });
const elsewhere = { hints: { forZones: [{ name: 'b' }], forNodes: [{ name: 'node-b' }] } };
const here = { forZones: [{ name: 'a' }], forNodes: [{ name: 'node-a' }] };
const asking = (key: string, value: string) => service('web', {}, { annotations: { [key]: value } });
const topologyMode = 'service.kubernetes.io/topology-mode';
const awareHints = 'service.kubernetes.io/topology-aware-hints';

/** What node-a in zone a does with the first Service: `-`: it is not served; then the load-balancer addresses. */
function served(change: readonly KubeObject[], version?: KubeProxyVersion): string {
  const options = of(version);
  const model = modelOf([...change, node('node-a')], options);
  const [port] = servicesOf(model, naming(version))[0]?.ports ?? [];
  const family = port?.families.ipv4;
  if (!port || !family) return '-';
  const { all } = selectEndpoints(port, family, { name: 'node-a', zone: 'a' });
  return [...all.map(({ address }) => address), ...family.loadBalancerIPs].join(' ');
}

/** `change` is served as the second text from the version on, and as the first before it; sources: the table itself. */
test.each<[string, readonly KubeObject[], KubeProxyVersion, string, string]>([
  [
    'a Service with the headless label',
    [service('web', {}, { labels: { [headless]: '' } }), slice('web')],
    '1.36',
    '-',
    '10.244.1.5',
  ],
  [
    'a slice with a proxy name',
    [service('web'), slice('web', {}, { labels: labelled(proxyName) })],
    '1.36',
    '',
    '10.244.1.5',
  ],
  [
    'hints for nodes',
    [asking(topologyMode, 'Auto'), hinted({ ...here, forZones: [{ name: 'b' }] })],
    '1.34',
    '10.244.1.5 10.244.1.6',
    '10.244.1.5',
  ],
  [
    'hints for zones',
    [service('web'), hinted({ forZones: here.forZones })],
    '1.31',
    '10.244.1.5 10.244.1.6',
    '10.244.1.5',
  ],
  [
    'hints for zones that are disabled',
    [asking(topologyMode, 'disabled'), hinted({ forZones: here.forZones })],
    '1.31',
    '10.244.1.5 10.244.1.6',
    '10.244.1.5',
  ],
  [
    'hints that the older of two annotations disables',
    [
      service('web', {}, { annotations: { [topologyMode]: 'Auto', [awareHints]: 'Disabled' } }),
      hinted({ forZones: here.forZones }),
    ],
    '1.31',
    '10.244.1.5 10.244.1.6',
    '10.244.1.5',
  ],
  [
    'a load-balancer address with ipMode Proxy',
    [
      service(
        'web',
        { type: 'LoadBalancer', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] },
        {
          status: { loadBalancer: { ingress: [{ ip: '192.0.2.8', ipMode: 'Proxy' }, { ip: '192.0.2.9' }] } },
        },
      ),
      slice('web'),
    ],
    '1.30',
    '10.244.1.5 192.0.2.8 192.0.2.9',
    '10.244.1.5 192.0.2.9',
  ],
])('%s', (_title, change, since, before, now) => {
  const from = kubeProxyVersions.indexOf(since);
  const expected = kubeProxyVersions.map((_, index) => (index < from ? before : now));
  expect(kubeProxyVersions.map((version) => served(change, version))).toEqual(expected);
  expect(served(change)).toBe(now);
});

test.each(['Auto', 'auto', 'anything'])('annotation %s enables hints in every version', (value) => {
  for (const key of [topologyMode, awareHints])
    expect(served([asking(key, value), hinted({ forZones: here.forZones })], '1.28')).toBe('10.244.1.5');
});

test('a slice with both labels is ignored in every version, and so is a Service', () => {
  const both = { ...labelled(headless), [proxyName]: 'x' };
  for (const version of ['1.28', '1.37'] as const) {
    expect(served([service('web'), slice('web', {}, { labels: both })], version)).toBe('');
    expect(served([service('web', {}, { labels: both }), slice('web')], version)).toBe('-');
  }
});

test('versions between two changes are read as the first of them', () => {
  expect([...kubeProxyVersions, undefined].map(behaviourOf)).toEqual([
    '1.28',
    '1.28',
    '1.30',
    '1.31',
    '1.31',
    '1.31',
    '1.34',
    '1.34',
    '1.36',
    '1.36',
    '1.36',
    '1.36',
  ]);
});

const mixed = {
  config: config({
    profiles: [
      profile('old', { kubeProxyVersion: '1.34', nodeSelector: { matchLabels: { age: 'old' } } }),
      profile('new', { kubeProxyVersion: '1.36' }),
    ],
  }),
};
const nodes = [node('node-a', {}, { age: 'old' }), node('node-b')];

test('in a cluster of two versions each profile has the Services of its version', () => {
  const change = [
    service('web', {}, { labels: { [headless]: '' } }),
    slice('web'),
    service('api', { clusterIP: '10.96.0.2' }),
    slice('api'),
    ...nodes,
  ];
  const { files, problems } = render({
    base: [],
    change,
    ...mixed,
    allocations: [],
    allocate: false,
    snapshot: false,
    strict: false,
  });
  const ofServices = [...files.keys()].filter((path) => path.includes('/shop/'));
  expect(ofServices.filter((path) => path.includes('/web'))).toEqual([expect.stringContaining('profiles/new/')]);
  expect(ofServices.filter((path) => path.includes('/api'))).toHaveLength(2);
  expect(lines(problems)).toContain(`note OBJECT_IGNORED Service web#metadata.labels.${headless}`);
});

test('Services that all versions read equally are the same objects in every version', () => {
  const change = [
    service('web', {}, { labels: { [headless]: '' } }),
    slice('web'),
    service('api', { clusterIP: '10.96.0.2' }),
    slice('api'),
  ];
  const { model } = normalised([...change, ...nodes], mixed);
  const [old, now] = mixed.config.profiles.map((one) => servicesOf(model, one));
  expect(old?.map(({ name }) => name)).toEqual(['api']);
  expect(now?.map(({ name }) => name)).toEqual(['api', 'web']);
  expect(old?.[0]).toBe(now?.[0]);
});

test('with a memo an older version computes only changed Services again', () => {
  const input = {
    base: [],
    change: [service('web'), hinted(here), node('node-a')],
    ...of('1.28'),
    allocations: [],
    allocate: false,
    snapshot: false,
  };
  const memo = new Memo();
  const [first, second] = [normalise(input, memo), normalise(input, memo)];
  expect(second.model.services[0]).toBe(first.model.services[0]);
  expect(second.model).toEqual(normalise(input).model);
});

test('reports a problem of two versions once', () => {
  const { problems } = normalised([service('web', { externalIPs: ['fd00::1'] }), slice('web'), ...nodes], mixed);
  expect(lines(problems)).toEqual(['warning OBJECT_IGNORED Service web#spec.externalIPs.0']);
});

test.each<[string, readonly KubeObject[], KubeProxyVersion | undefined, readonly string[]]>([
  ['nothing that a version treats otherwise', [service('web'), slice('web')], undefined, []],
  [
    'hints, and no version',
    [service('web'), hinted(here)],
    undefined,
    [
      'note: Profile default: kubeProxyVersion is not set, so the rules are those of 1.37; kube-proxy before 1.34 serves shop/web differently',
    ],
  ],
  ['hints, and a version', [service('web'), hinted(here)], '1.37', []],
])('a missing version is noted where it makes a difference: %s', (_title, change, version, expected) => {
  const { problems } = normalised([...change, node('node-a')], of(version));
  expect(problems.map(({ level, object, message }) => `${level}: ${object}: ${message}`)).toEqual(expected);
});

test('many Services are counted, and the newest difference is named', () => {
  const many = ['a', 'b', 'c', 'd', 'e'].flatMap((name, index) => [
    service(name, { clusterIP: `10.96.0.${index + 1}` }, name === 'e' ? { labels: { [headless]: '' } } : {}),
    slice(name, { endpoints: [endpoint(`10.244.1.${index + 1}`, { hints: here })] }),
  ]);
  expect(normalised([...many, node('node-a')]).problems.map(({ message }) => message)).toEqual([
    'kubeProxyVersion is not set, so the rules are those of 1.37; kube-proxy before 1.36 serves shop/a, shop/b, shop/c and 2 more differently',
  ]);
});

test('differences are in order, newest first', () => {
  const order = objectDifferences.map(({ since }) => kubeProxyVersions.indexOf(since));
  expect(order).toEqual(order.toSorted((a, b) => b - a));
});

test('an ignored slice of an older version is a warning, and leaves the Service without endpoints', () => {
  const change = [service('web'), slice('web', {}, { labels: labelled(proxyName) })];
  expect(lines(normalised(change, of('1.35')).problems.filter(({ level }) => level === 'warning'))).toEqual([
    `warning OBJECT_IGNORED EndpointSlice web-1#metadata.labels.${proxyName}`,
    'warning SERVICE_WITHOUT_ENDPOINTS Service web#spec.selector',
  ]);
});

const text = (files: ReadonlyMap<string, string>, part: string): string =>
  [...files]
    .filter(([path]) => path.includes(part))
    .map(([, content]) => content)
    .join('');
const renderedWith = (change: readonly KubeObject[], more: Partial<Profile>) =>
  render({
    base: [],
    change,
    config: config({ profiles: [profile('default', more)] }),
    allocations: [],
    allocate: false,
    snapshot: false,
    strict: false,
  }).files;

test('before 1.29 source ranges of mode ipvs do not apply to the node itself', () => {
  const balancer = service(
    'web',
    {
      type: 'LoadBalancer',
      ports: [{ name: 'http', port: 80, nodePort: 30_080 }],
      loadBalancerSourceRanges: ['10.0.0.0/8'],
    },
    { status: { loadBalancer: { ingress: [{ ip: '192.0.2.9' }] } } },
  );
  const ipvs = {
    scheduler: 'rr',
    excludeCIDRs: [],
    strictARP: false,
    timeouts: { tcp: 0, tcpFin: 0, udp: 0 },
  } as const;
  const filters = (kubeProxyVersion: KubeProxyVersion) =>
    text(renderedWith([balancer, slice('web')], { mode: 'ipvs', ipvs, kubeProxyVersion }), '/shop/').includes(
      '-A KUBE-IPVS-OUT-FILTER',
    );
  expect([filters('1.28'), filters('1.29'), filters('1.37')]).toEqual([false, true, true]);
});
