import { ineligibilityIn, resolveNode } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { configWith, profileWith } from './compile/sample.fixture.ts';
import type { Json, JsonObject, KubeKind, KubeObject } from './model/kube.ts';
import { type RenderInput, render } from './render.ts';

function object(kind: KubeKind, apiVersion: string, value: Readonly<Record<string, Json>>): KubeObject {
  const place = { file: `${kind}.yaml`, line: 1, column: 1 };
  return { kind, apiVersion, value: { apiVersion, kind, ...value }, origin: { place: () => place } };
}

const service = (name: string, clusterIP: string, spec: Readonly<Record<string, Json>> = {}): KubeObject =>
  object('Service', 'v1', {
    metadata: { name, namespace: 'shop' },
    spec: { clusterIP, selector: { app: name }, ports: [{ name: 'http', port: 80 }], ...spec },
  });
const slice = (of: string, suffix: string, endpoints: readonly Json[]): KubeObject =>
  object('EndpointSlice', 'discovery.k8s.io/v1', {
    metadata: { name: `${of}-${suffix}`, namespace: 'shop', labels: { 'kubernetes.io/service-name': of } },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints,
  });
const backend = (address: string, nodeName: string): Json => ({
  addresses: [address],
  nodeName,
  conditions: { ready: true },
});
const kubeNode = (name: string, address: string): KubeObject =>
  object('Node', 'v1', {
    metadata: { name, labels: { 'topology.kubernetes.io/zone': 'a' } },
    status: { addresses: [{ type: 'InternalIP', address }], capacity: { cpu: '8' } },
  });

const objects: readonly KubeObject[] = [
  service('cart', '10.96.0.10'),
  service('web', '10.96.0.11', { internalTrafficPolicy: 'Local' }),
  slice('cart', 'x', [backend('10.244.1.7', 'node-a'), backend('10.244.2.9', 'node-b')]),
  slice('cart', 'y', [backend('10.244.1.8', 'node-a')]),
  slice('web', 'x', [backend('10.244.1.9', 'node-a')]),
  kubeNode('node-a', '192.0.2.1'),
  kubeNode('node-b', '192.0.2.2'),
];
const inputOf = (change: readonly KubeObject[], rest: Partial<RenderInput> = {}): RenderInput => ({
  base: [],
  change,
  config: configWith(),
  allocations: [],
  allocate: false,
  snapshot: false,
  strict: false,
  ...rest,
});

test('renders objects to the rules of a node', () => {
  const { files, problems } = render(inputOf(objects));
  expect(problems.filter((problem) => problem.level === 'error')).toEqual([]);
  const node = resolveNode(files, 'node-b');
  if (!('rules' in node)) throw new Error(JSON.stringify(node));
  const lines = [...node.rules.ipv4!.filter.rules, ...node.rules.ipv4!.nat.rules];
  expect(lines.filter((line) => line.startsWith('-A KUBE-SERVICES') && line.includes('shop/'))).toEqual([
    '-A KUBE-SERVICES -m comment --comment "shop/web:http has no local endpoints" -m tcp -p tcp -d 10.96.0.11 --dport 80 -j DROP',
    '-A KUBE-SERVICES -m comment --comment "shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 80 -j KUBE-SVC-I5LIAMPLWKMBJ54B',
  ]);
  expect(lines.filter((line) => line.includes('--to-destination')).length).toBe(3);
});

test('the order of the objects changes no byte', () => {
  const once = [...render(inputOf(objects)).files];
  fc.assert(
    fc.property(fc.shuffledSubarray([...objects], { minLength: objects.length }), (shuffled) => {
      expect([...render(inputOf(shuffled)).files]).toEqual(once);
    }),
    runs(50),
  );
});

test('a changed node changes only its own file', () => {
  const moved = objects.map((one) =>
    one.value['metadata'] === objects[6]!.value['metadata'] ? kubeNode('node-b', '192.0.2.9') : one,
  );
  const before = render(inputOf(objects)).files;
  const after = render(inputOf(moved)).files;
  expect([...after].filter(([path, text]) => before.get(path) !== text).map(([path]) => path)).toEqual([
    'nodes/node-b/node.yaml',
  ]);
});

test('a new endpoint changes one file', () => {
  const before = render(inputOf(objects)).files;
  const after = render(inputOf([...objects, slice('web', 'z', [backend('10.244.2.8', 'node-b')])])).files;
  expect([...after].filter(([path, text]) => before.get(path) !== text).map(([path]) => path)).toEqual([
    'profiles/default/services/shop/web.iptables',
  ]);
});

test.each<[string, Partial<RenderInput>, boolean]>([
  ['manifests', {}, false],
  ['a snapshot', { snapshot: true }, true],
  ['manifests that the config calls complete', { config: configWith({ complete: true }) }, true],
])('cluster.yaml says whether the input was complete: %s', (_title, rest, complete) => {
  expect(render(inputOf(objects, rest)).files.get('cluster.yaml')).toContain(`\ncomplete: ${complete}\n`);
});

test('an error leaves no files', () => {
  const wrong = service('broken', '10.96.0.300');
  const { files, created, problems } = render(inputOf([...objects, wrong], { allocate: true }));
  expect(problems.some((problem) => problem.level === 'error')).toBe(true);
  expect([files.size, created.length]).toEqual([0, 0]);
});

test('strict makes a warning an error', () => {
  const lonely = [...objects, service('lonely', '10.96.0.12')];
  const warned = render(inputOf(lonely, { snapshot: true, config: configWith({ complete: true }) }));
  const refused = render(inputOf(lonely, { snapshot: true, config: configWith({ complete: true }), strict: true }));
  const levels = (rendered: typeof warned): unknown[] => [
    ...new Set(rendered.problems.map((problem) => problem.level)),
  ];
  expect(levels(warned)).toContain('warning');
  expect(levels(warned)).not.toContain('error');
  expect(warned.files.size).toBeGreaterThan(0);
  expect(levels(refused)).toContain('error');
  expect(levels(refused)).not.toContain('warning');
  expect(refused.files.size).toBe(0);
});

test('files come in byte order, all of them ASCII with an end to their last line', () => {
  const { files } = render(inputOf(objects));
  const paths = [...files.keys()];
  expect(paths).toEqual(paths.toSorted());
  for (const text of files.values()) expect(text).toMatch(/^[\n\x20-\x7e]*\n$/);
});

test('differences of mode ipvs are not errors with --strict', () => {
  const ipvs = {
    scheduler: 'rr',
    excludeCIDRs: [],
    strictARP: false,
    timeouts: { tcp: 0, tcpFin: 0, udp: 0 },
  } as const;
  const config = configWith({ profiles: [profileWith({ mode: 'ipvs', ipvs })] });
  const { files, problems } = render(inputOf(objects, { config, strict: true }));
  expect(problems.filter(({ level }) => level === 'differs').map(({ code }) => code)).toContain('DIFFERS_NO_ENDPOINT');
  expect(files.get('profiles/default/services/shop/web.ipvs')).toContain('-A -t 10.96.0.11:80 -s rr\n');
});

test.each([
  [
    'the taint of the cluster autoscaler',
    { spec: { taints: [{ key: 'ToBeDeletedByClusterAutoscaler', effect: 'NoSchedule' }] } },
    'ToBeDeletedByClusterAutoscaler',
  ],
  ['its deletion', { metadata: { name: 'node-b', deletionTimestamp: '2026-01-02T03:04:05Z' } }, 'deletionTimestamp'],
  [
    'the condition of a drain',
    {
      status: {
        conditions: [
          { type: 'Drained', status: 'False' },
          { type: 'DrainInProgress', status: 'True' },
        ],
      },
    },
    'DrainInProgress',
  ],
  ['a drain that is over', { status: { conditions: [{ type: 'DrainInProgress', status: 'False' }] } }, undefined],
  ['another taint', { spec: { taints: [{ key: 'node.kubernetes.io/not-ready', effect: 'NoSchedule' }] } }, undefined],
] as const)('%s of a Node changes no version', (_title, part, why) => {
  const marked = objects.map((one) => {
    if (one.kind !== 'Node' || (one.value['metadata'] as { name: string }).name !== 'node-b') return one;
    const { status, ...more } = part as { readonly status?: Record<string, Json> };
    const value = one.value as Record<string, Json>;
    return object('Node', 'v1', { ...value, ...more, status: { ...(value['status'] as JsonObject), ...status } });
  });
  const [before, after] = [objects, marked].map((list) => render(inputOf(list)).files);
  const path = 'nodes/node-b/node.yaml';
  expect(ineligibilityIn(after!.get(path)!)).toBe(why);
  expect(ineligibilityIn(before!.get(path)!)).toBeUndefined();
  const [old, now] = [before, after].map((files) => resolveNode(files!, 'node-b'));
  expect(now).toMatchObject({ version: (old as { version: string }).version });
});
