import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { completeFile, completeText, fileDigest } from '@sluice/bundle';
import { Layered } from '@sluice/netfilter';
import { atTier, runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LiveTree } from '../../emit/live-tree.ts';
import { readConfig } from '../../load/config/config.ts';
import { listTree, readText } from '../../load/tree.ts';
import { type Changes, endpoint, endpoints, node, service, slice } from '../builders.fixture.ts';
import type { SluiceConfig } from '../model/config.ts';
import type { KubeObject } from '../model/kube.ts';
import { diffBundles } from '../../../../review/src/diff/diff.ts';
import { renderWithQuarantine } from '../quarantine/with-quarantine.ts';
import { headlessLabel, proxyNameLabel } from '../read/names.ts';
import { isError } from '../render.ts';
import { LiveRender } from './live-render.ts';

/** Profiles of a mode: one for zone a with the defaults, one for other nodes, as kube-proxy of another version and without external IPs. */
const configOf = (mode: string): SluiceConfig =>
  readConfig({
    sluice: {
      file: 'c',
      text: `
apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
profiles:
  - { name: zoned, mode: ${mode}, nodeSelector: { matchLabels: { topology.kubernetes.io/zone: a } } }
  - { name: default, mode: ${mode}, kubeProxyVersion: '1.29', featureGates: { AllowServiceExternalIPs: false } }
`,
    },
    kubeProxy: [],
  }).config;
const modes = ['iptables', 'nftables', 'ipvs'] as const;

const name = fc.constantFrom('a', 'b', 'c');
const host = fc.integer({ min: 1, max: 5 });
const zone = fc.constantFrom('a', 'b');
const nodeName = fc.constantFrom('node-a', 'node-b', 'node-c', undefined);

const someEndpoint = fc
  .record({
    // The last address is a ClusterIP, or leads to one by NAT64.
    address: fc.tuple(
      host,
      fc.integer({ min: 1, max: 40 }).map((n) => n === 40),
    ),
    nodeName,
    zone: fc.option(zone, { nil: undefined }),
    ready: fc.constantFrom(true, false, undefined),
    terminating: fc.boolean(),
    forZones: fc.subarray(['a', 'b']),
    forNodes: fc.subarray(['node-a', 'node-b']),
  })
  .map((one) => (family: 'IPv4' | 'IPv6') => {
    const [last, isClusterIP] = one.address;
    const ofClusterIPs = one.terminating ? '64:ff9b::a60:' : 'fd00:96::';
    const prefix =
      family === 'IPv4' ? (isClusterIP ? '10.96.0.' : '10.244.1.') : isClusterIP ? ofClusterIPs : 'fd00:1::';
    const hints: Changes = {
      ...(one.forZones.length > 0 && { forZones: one.forZones.map((text) => ({ name: text })) }),
      ...(one.forNodes.length > 0 && { forNodes: one.forNodes.map((text) => ({ name: text })) }),
    };
    return endpoint(`${prefix}${last}`, {
      nodeName: one.nodeName,
      zone: one.zone,
      conditions: { ...(one.ready !== undefined && { ready: one.ready }), terminating: one.terminating, serving: true },
      ...(Object.keys(hints).length > 0 && { hints: hints as never }),
    });
  });

/** An EndpointSlice, which may belong to another Service than before, to none, or have an error. */
const someSlice = fc.record({
  key: fc.constantFrom('s1', 's2', 's3', 's4'),
  of: fc.oneof({ weight: 12, arbitrary: name }, { weight: 1, arbitrary: fc.constantFrom('unknown', '') }),
  family: fc.oneof(
    { weight: 10, arbitrary: fc.constantFrom('IPv4', 'IPv6') },
    { weight: 1, arbitrary: fc.constantFrom('FQDN', 'wrong') },
  ),
  endpoints: fc.array(someEndpoint, { maxLength: 4 }),
  port: fc.constantFrom('http', 'dns', 'other'),
  label: fc.oneof(
    { weight: 9, arbitrary: fc.constant({}) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        { 'service.kubernetes.io/headless': '' },
        { 'service.kubernetes.io/service-proxy-name': 'x' },
      ),
    },
  ),
});

function sliceOf({ key, of, family, endpoints: list, port, label }: ValueOf<typeof someSlice>): KubeObject {
  const form = family === 'IPv6' ? 'IPv6' : 'IPv4';
  const fields = {
    addressType: family,
    ports: [{ name: port, port: 8080, protocol: port === 'dns' ? 'UDP' : 'TCP' }],
    endpoints: list.map((make) => make(form)),
  };
  return slice(of, fields, { name: key, labels: { ...(of !== '' && { 'kubernetes.io/service-name': of }), ...label } });
}

const someService = fc.record({
  key: name,
  host,
  families: fc.constantFrom(['IPv4'], ['IPv4', 'IPv6'], ['IPv6']),
  headless: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  internal: fc.constantFrom('Cluster', 'Local'),
  external: fc.constantFrom('Cluster', 'Local'),
  type: fc.constantFrom('ClusterIP', 'NodePort'),
});

function serviceOf(one: ValueOf<typeof someService>): KubeObject {
  const addresses = one.families.map((family) => (family === 'IPv4' ? `10.96.0.${one.host}` : `fd00:96::${one.host}`));
  const ports = [
    { name: 'http', port: 80, ...(one.type === 'NodePort' && { nodePort: 30_000 + one.host }) },
    { name: 'dns', port: 53, protocol: 'UDP', ...(one.type === 'NodePort' && { nodePort: 31_000 + one.host }) },
  ];
  const spec = {
    clusterIP: one.headless ? 'None' : addresses[0],
    clusterIPs: one.headless ? ['None'] : addresses,
    ipFamilies: one.families,
    ports,
    type: one.headless ? 'ClusterIP' : one.type,
    internalTrafficPolicy: one.internal,
    ...(one.type === 'NodePort' && !one.headless && { externalTrafficPolicy: one.external }),
    ...(one.host === 3 && { externalIPs: ['198.51.100.7'] }),
  };
  // The label of a weight is a value of nodes that others depend on.
  const hasWeights = one.host === 4 && one.internal === 'Local';
  const weights = { 'sluice.dev/weights': 'topology.kubernetes.io/zone=a:3' };
  return service(one.key, spec, hasWeights ? { annotations: weights } : {});
}

/** One thing that happens to a cluster: an object is now like that, or gone. */
const eventOf = (services: number) =>
  fc.record({
    isGone: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
    object: fc.oneof(
      { weight: 10, arbitrary: someSlice.map(sliceOf) },
      { weight: services, arbitrary: someService.map(serviceOf) },
      {
        weight: 1,
        arbitrary: fc
          .record({ key: fc.constantFrom('node-a', 'node-b'), zone })
          .map((one) => node(one.key, {}, { 'topology.kubernetes.io/zone': one.zone })),
      },
      { weight: 1, arbitrary: fc.record({ key: name, nodeName }).map((one) => endpointsOf(one.key, one.nodeName)) },
    ),
  });
/** @param services the weight of Services, of which some are quarantined, beside 10 for EndpointSlices */
const historyOf = (services: number) =>
  fc.array(fc.array(eventOf(services), { minLength: 1, maxLength: 3 }), { maxLength: 10 });
const history = historyOf(2);

function endpointsOf(key: string, on: string | undefined): KubeObject {
  return endpoints(key, { addresses: [{ ip: '10.244.1.9', ...(on !== undefined && { nodeName: on }) }] });
}

type ValueOf<A> = A extends fc.Arbitrary<infer T> ? T : never;
type Event = ValueOf<ReturnType<typeof eventOf>>;

/** The objects of a cluster, in the order of a feed. */
class Cluster {
  #objects = Layered.of<KubeObject>(new Map());

  constructor(objects: readonly KubeObject[]) {
    for (const object of objects) this.apply({ object, isGone: false });
  }

  apply({ object, isGone }: Event): void {
    const key = `${object.kind} ${(object.value['metadata'] as { name: string }).name}`;
    this.#objects = this.#objects.with([[key, isGone ? undefined : object]]);
  }

  get objects(): ReadonlyMap<string, KubeObject> {
    return this.#objects;
  }
}

const start: readonly KubeObject[] = [
  node('node-a'),
  node('node-b', {}, { 'topology.kubernetes.io/zone': 'b' }),
  ...['a', 'b', 'c'].map((key, at) =>
    service(key, { clusterIP: `10.96.0.${at + 1}`, ports: [{ name: 'http', port: 80 }] }),
  ),
  slice('a', {}, { name: 's1' }),
  slice('b', {}, { name: 's2' }),
];

function renderAgain(objects: readonly KubeObject[], of: SluiceConfig, last: ReadonlyMap<string, string>) {
  const input = {
    base: [],
    change: objects,
    config: of,
    allocations: [],
    allocate: false,
    snapshot: true,
    strict: false,
  };
  const { files, problems, quarantine } = renderWithQuarantine(input, (path) => last.get(path));
  return {
    files: new Map(files),
    errors: problems.filter(isError),
    ignored: problems.filter(({ code }) => code === 'SLICE_WITHOUT_SERVICE'),
    quarantine,
  };
}

test.each(modes)(
  'renders changes of Services and endpoints to the same bytes as everything again, over random histories (mode %s)',
  (mode) => {
    const of = configOf(mode);
    let [parts, all, services] = [0, 0, 0];
    fc.assert(
      fc.property(historyOf(6), fc.boolean(), fc.boolean(), (steps, hasNodes, forgets) => {
        const cluster = new Cluster(hasNodes ? start : start.slice(2));
        const live = new LiveRender(of);
        let last: ReadonlyMap<string, string> = new Map();
        for (const events of [[], ...steps]) {
          for (const one of events) cluster.apply(one);
          const { isPart, ...rendered } = live.render(cluster.objects, (path) => last.get(path));
          const { files, ...rest } = renderAgain([...cluster.objects.values()], of, last);
          expect({ ...rendered, files: new Map(rendered.files) }).toEqual({ ...rest, files });
          if (forgets) {
            live.forget();
            live.pack();
          }
          last = files.size > 0 ? files : last;
          parts += Number(isPart);
          services += Number(isPart && events.some(({ object }) => object.kind === 'Service'));
          all += 1;
        }
      }),
      runs(atTier({ quick: 300, all: 2000 })),
    );
    // The histories would prove nothing if all of them rendered everything.
    expect(parts / all).toBeGreaterThanOrEqual(0.15);
    expect(services / all).toBeGreaterThanOrEqual(0.05);
  },
);

/** What a watch of node-a alone sees of a cluster. */
function seenBy(nodeAlone: string, objects: ReadonlyMap<string, KubeObject>): ReadonlyMap<string, KubeObject> {
  const isSeen = ({ kind, value }: KubeObject): boolean => {
    const { name: called, labels = {} } = value['metadata'] as { name: string; labels?: Record<string, string> };
    if (kind === 'Node') return called === nodeAlone;
    if (kind !== 'Service') return labels[headlessLabel] === undefined;
    return labels[proxyNameLabel] === undefined && (value['spec'] as { clusterIP?: string }).clusterIP !== 'None';
  };
  return new Map([...objects].filter(([, object]) => isSeen(object)));
}

test.each(modes)(
  'packets of a node go the same ways by what it watches alone and by all of the cluster, over random histories (mode %s)',
  (mode) => {
    const of = configOf(mode);
    let compared = 0;
    fc.assert(
      fc.property(history, (steps) => {
        const cluster = new Cluster(start);
        const alone = new LiveRender(of);
        for (const events of [[], ...steps]) {
          for (const one of events) cluster.apply(one);
          const whole = renderAgain([...cluster.objects.values()], of, new Map());
          const own = alone.render(seenBy('node-a', cluster.objects), () => undefined);
          // One that is bad for another profile alone is left out of the whole bundle.
          if (whole.quarantine.length > 0 || !whole.files.has('nodes/node-a/node.yaml')) continue;
          expect(own.quarantine).toEqual([]);
          const ofNode = new Map([...whole.files].filter(([path]) => path !== 'nodes/node-b/node.yaml'));
          expect(diffBundles(ofNode, new Map(own.files))).toMatchObject({ flows: [] });
          expect([...own.files.keys()].filter((path) => path.startsWith('nodes/'))).toEqual(['nodes/node-a/node.yaml']);
          compared += 1;
        }
      }),
      runs(atTier({ quick: 15, all: 150 })),
    );
    expect(compared).toBeGreaterThan(atTier({ quick: 2, test: 10 }));
  },
);

test.each(modes)('a Service that becomes too large keeps its last good files, and stops no other (mode %s)', (mode) => {
  const of = configOf(mode);
  const cluster = new Cluster(start);
  const live = new LiveRender(of);
  const before = live.render(cluster.objects, () => undefined).files;
  const ports = Array.from({ length: 2_000 }, (_, n) => ({ name: n === 0 ? 'http' : `p${n}`, port: 8080 + n }));
  const many = Array.from({ length: 1_000 }, (_, n) => endpoint(`10.244.${n >> 8}.${n & 255}`, { nodeName: 'node-a' }));
  cluster.apply({ object: slice('a', { ports, endpoints: many }, { name: 's1' }), isGone: false });
  cluster.apply({ object: slice('b', { endpoints: [endpoint('10.244.7.7')] }, { name: 's2' }), isGone: false });
  const { files, errors, quarantine } = live.render(cluster.objects, (path) => before.get(path));
  expect(errors).toEqual([]);
  expect(quarantine).toMatchObject([
    { object: 'Service shop/a', rules: 'last good', reasons: [{ code: 'INPUT_TOO_LARGE' }] },
  ]);
  const texts = (key: string, bundle: ReadonlyMap<string, string>) =>
    [...bundle].filter(([path]) => path.includes(`/services/shop/${key}.`)).map(([, text]) => text);
  expect(texts('a', files)).toEqual(texts('a', before));
  expect(texts('a', files).length).toBeGreaterThan(0);
  expect(texts('b', files).join('')).toContain('10.244.7.7');
});

test('sets of mode ipvs get another size by a Service that is rendered alone', () => {
  const of = configOf('ipvs');
  const cluster = new Cluster(start);
  const live = new LiveRender(of);
  live.render(cluster.objects, () => undefined);
  const ports = Array.from({ length: 100 }, (_, n) => ({ name: `p${n}`, port: 8080 + n }));
  const balanced = (ranges: number): KubeObject =>
    service(
      'c',
      {
        type: 'LoadBalancer',
        clusterIP: '10.96.0.3',
        ports,
        loadBalancerSourceRanges: Array.from({ length: ranges }, (_, n) => `198.51.${n >> 8}.${n & 255}/32`),
      },
      { status: { loadBalancer: { ingress: [{ ip: '203.0.113.9' }] } } },
    );
  const sizes = [700, 600, 700].map((ranges) => {
    cluster.apply({ object: balanced(ranges), isGone: false });
    const { files, isPart } = live.render(cluster.objects, () => undefined);
    const again = renderAgain([...cluster.objects.values()], of, new Map());
    expect([isPart, again.quarantine]).toEqual([true, []]);
    expect(new Map(files)).toEqual(again.files);
    const created = files.get('profiles/default/base/first.ipset') ?? '';
    return /create KUBE-LOAD-BALANCER-SOURCE-CIDR .* maxelem (\d+)/.exec(created)?.[1];
  });
  expect(sizes).toEqual(['131072', '65536', '131072']);
});

test('writes the same directory and tree digest as a first publication, over random histories', () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-live-render-'));
  const of = configOf('nftables');
  try {
    fc.assert(
      fc.property(history, (steps) => {
        const cluster = new Cluster(start);
        const live = new LiveRender(of);
        const tree = new LiveTree(dir);
        for (const events of [[], ...steps]) {
          for (const one of events) cluster.apply(one);
          const { files } = live.render(cluster.objects, (path) => tree.text(path));
          tree.publish(files);
          const digests = new Map([...files].map(([path, text]) => [path, fileDigest(text)]));
          expect(readText(dir, completeFile)).toBe(completeText(digests));
          expect(new Map(listTree(dir).map((path) => [path, readText(dir, path)]))).toEqual(new Map(files));
        }
      }),
      runs(40),
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
});
