import { expect, test } from 'vitest';
import type { BundleFiles } from '@sluice/bundle';
import { admit, AdmitMemory, isRefusal } from '../packages/applier/src/apply/admission/admit.ts';
import { LiveEndpoints, LiveMemory, type WithLive } from '../packages/applier/src/apply/reconcile/live-endpoints.ts';
import { endpointChanges } from '../packages/applier/src/apply/endpoints/endpoint-changes.ts';
import type { NodeState } from '../packages/applier/src/ports/node-state.ts';
import { liveLimits } from '../packages/applier/src/limits.ts';
import { type Changes, endpoint, node, service, slice } from '../packages/renderer/src/render/builders.fixture.ts';
import { readConfig } from '../packages/renderer/src/load/config/config.ts';
import type { SluiceConfig } from '../packages/renderer/src/render/model/config.ts';
import type { KubeObject } from '../packages/renderer/src/render/model/kube.ts';
import { render } from '../packages/renderer/src/render/render.ts';
import { sampleFacts as facts } from '../packages/applier/src/testing/node-facts.fixture.ts';

/** What live endpoints may change of a release, on rules that `sluice render` writes: endpoints, of Services that it has. */

const programs = [
  { mode: 'iptables', layout: 'tree' },
  { mode: 'iptables', layout: 'flat' },
  { mode: 'nftables', layout: 'tree' },
  { mode: 'ipvs', layout: 'flat' },
] as const;
type Program = (typeof programs)[number];

/** Hosts in the pod network by Service; undefined: there is no such Service. */
interface Cluster {
  readonly web?: readonly string[];
  readonly idle?: readonly string[];
  readonly cart?: readonly string[];
  /** Changed fields of Service `web`. */
  readonly spec?: Changes;
  readonly more?: readonly KubeObject[];
}

const reviewed = { web: ['10.244.1.5', '10.244.1.6'], idle: [], cart: ['10.244.2.9'] } satisfies Cluster;
const clusterIPs = { web: '10.96.0.1', idle: '10.96.0.2', cart: '10.96.0.3' } as const;

function objectsOf(cluster: Cluster): readonly KubeObject[] {
  const names = Object.keys(clusterIPs) as (keyof typeof clusterIPs)[];
  const services = names.flatMap((name) => {
    const hosts = cluster[name];
    if (!hosts) return [];
    const endpoints = hosts.map((host) => endpoint(host, { nodeName: 'node-b' }));
    const spec = { clusterIP: clusterIPs[name], ...(name === 'web' ? cluster.spec : {}) };
    return [service(name, spec), slice(name, { endpoints })];
  });
  return [node('node-a'), node('node-b'), ...services, ...(cluster.more ?? [])];
}

const configOf = (mode: Program['mode']): SluiceConfig => {
  const text = `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nprofiles: [{ name: default, mode: ${mode}, clusterCIDR: 10.244.0.0/16 }]\n`;
  return readConfig({ sluice: { file: 'c', text }, kubeProxy: [] }).config;
};

function rendered(cluster: Cluster, { mode }: Program): BundleFiles {
  const made = render({
    base: [],
    change: objectsOf(cluster),
    config: configOf(mode),
    allocations: [],
    allocate: false,
    snapshot: true,
    strict: false,
  });
  if (made.files.size === 0) throw new Error(JSON.stringify(made.problems));
  return made.files;
}

const optionsOf = ({ layout }: Program) => ({ node: 'node-a', allowPartial: false, layout });

function stateOf(files: BundleFiles, program: Program): NodeState {
  const bundle = admit(files, optionsOf(program), facts, new AdmitMemory());
  if (isRefusal(bundle)) throw new Error(JSON.stringify(bundle.problems));
  return bundle.state;
}

const composer = (release: BundleFiles, program: Program): LiveEndpoints =>
  new LiveEndpoints(release, optionsOf(program), () => facts, new LiveMemory());

/** The files of a Service. */
const filesOf = (files: BundleFiles, name: string): BundleFiles =>
  new Map([...files].filter(([path]) => path.includes(`/services/shop/${name}.`)));

/** Compares what became of a release, Service by Service: with the files of the live bundle, or with those of the release. */
function expectTaken(made: WithLive, release: BundleFiles, live: BundleFiles, names: readonly string[]): void {
  for (const name of Object.keys(clusterIPs))
    expect(filesOf(made.files, name)).toEqual(filesOf(names.includes(name) ? live : release, name));
  const others = (files: BundleFiles): BundleFiles =>
    new Map([...files].filter(([path]) => !path.includes('/services/')));
  expect(others(made.files)).toEqual(others(release));
  expect([...made.files.keys()].toSorted()).toEqual([...release.keys()].toSorted());
}

const other = { ...reviewed, cart: ['10.244.2.10'] };

/** What the API server has, the Services whose endpoints are taken, and why those of others are not; `cart` always has another endpoint. */
const cases: readonly (readonly [string, Cluster, readonly string[], Readonly<Record<string, string>>])[] = [
  ['other endpoints', { ...other, web: ['10.244.1.7'] }, ['web', 'cart'], {}],
  ['many more', { ...other, web: Array.from({ length: 40 }, (_one, at) => `10.244.3.${at + 1}`) }, ['web', 'cart'], {}],
  ['the first endpoint', { ...other, idle: ['10.244.1.8'] }, ['idle', 'cart'], {}],
  ['no endpoint', { ...other, web: [] }, ['web', 'cart'], {}],
  ['an endpoint at a Node of the release', { ...other, web: ['192.0.2.11'] }, ['web', 'cart'], {}],
  [
    'an endpoint elsewhere',
    { ...other, web: ['198.51.100.7'] },
    ['cart'],
    { web: 'is outside of the allowed networks' },
  ],
  [
    'a first endpoint elsewhere',
    { ...other, idle: ['203.0.113.7'] },
    ['cart'],
    { idle: 'is outside of the allowed networks' },
  ],
  ['no such Service', { web: [...reviewed.web], cart: ['10.244.2.10'] }, ['cart'], {}],
  ['another Service', { ...other, more: [service('more', { clusterIP: '10.96.0.9' }), slice('more')] }, ['cart'], {}],
  ...(
    [
      ['another port', { ports: [{ name: 'http', port: 81, targetPort: 8080 }] }],
      [
        'a further port',
        {
          ports: [
            { name: 'http', port: 80 },
            { name: 'more', port: 81 },
          ],
        },
      ],
      ['another ClusterIP', { clusterIP: '10.96.0.7' }],
      ['an external address', { externalIPs: ['203.0.113.8'] }],
      ['a node port', { type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] }],
      ['session affinity', { sessionAffinity: 'ClientIP' }],
    ] as const
  ).map(
    ([title, spec]) =>
      [title, { ...other, web: ['10.244.1.7'], spec }, ['cart'], { web: 'more than endpoints' }] as const,
  ),
];

test.each(programs.flatMap((program) => cases.map(([title, ...rest]) => ({ ...program, title, rest }))))(
  'mode $mode, layout $layout: $title in the API server',
  ({ rest: [cluster, names, declined], ...program }) => {
    const [release, live] = [rendered(reviewed, program), rendered(cluster, program)];
    const made = composer(release, program).with(live);
    expectTaken(made, release, live, names);
    expect([...made.declined.keys()]).toEqual(Object.keys(declined).map((name) => `shop/${name}`));
    for (const [name, why] of Object.entries(declined)) expect(made.declined.get(`shop/${name}`)).toContain(why);
    const changed = endpointChanges(stateOf(release, program), stateOf(made.files, program));
    expect(changed.length).toBeGreaterThan(0);
  },
);

/** Texts that `sluice` itself would not write: the program that writes live endpoints is taken over. */
test.each(
  programs.flatMap((program) =>
    (
      [
        ['an endpoint at the ClusterIP of another Service', '10.244.1.7', '10.96.0.3'],
        ['an endpoint on loopback', '10.244.1.7', '127.0.0.1'],
        ['the metadata service of a cloud', '10.244.1.7', '169.254.169.254'],
        ['endpoints at another port', /(10\.244\.1\.7(?::| \. |,tcp:))8080/g, '$122'],
        ['a frontend of another Service', /10\.96\.0\.1(?=[ ,:/]|$)/gm, '10.96.0.3'],
        ['a text that is no rule', /^/g, 'flush ruleset\n'],
      ] as const
    ).map(([title, from, to]) => ({ ...program, title, from, to })),
  ),
)('mode $mode, layout $layout: refuses $title', ({ from, to, ...program }) => {
  const release = rendered(reviewed, program);
  const live = rendered({ ...other, web: ['10.244.1.7'] }, program);
  const hostile = new Map(
    [...live].map(([path, text]) => [path, path.includes('/shop/web.') ? text.replaceAll(from as RegExp, to) : text]),
  );
  expect(filesOf(hostile, 'web')).not.toEqual(filesOf(live, 'web'));
  const made = composer(release, program).with(hostile);
  expectTaken(made, release, live, ['cart']);
  expect([...made.declined.keys()]).toEqual(['shop/web']);
});

test.each(programs)('mode $mode, layout $layout: what is declined keeps its last endpoints', (program) => {
  const release = rendered(reviewed, program);
  const endpoints = composer(release, program);
  const good = rendered({ ...reviewed, web: ['10.244.1.7'] }, program);
  endpoints.with(good);
  const bad = rendered({ ...other, web: ['198.51.100.7'] }, program);
  const made = endpoints.with(bad);
  expect(filesOf(made.files, 'web')).toEqual(filesOf(good, 'web'));
  expect(filesOf(made.files, 'cart')).toEqual(filesOf(bad, 'cart'));
  const again = endpoints.with(rendered({ ...other, web: ['10.244.1.8'] }, program));
  expect([again.declined.size, again.files === made.files]).toEqual([0, false]);
  expect(endpoints.with(bad).version).toBe(made.version);
});

test('other base rules, Nodes and profiles of a live bundle are not read', () => {
  const [program] = programs;
  const release = rendered(reviewed, program);
  const live = new Map(
    [...rendered(reviewed, program)].map(([path, text]) => [
      path,
      path.includes('/services/') ? text : `${text}# other\n`,
    ]),
  );
  expect(composer(release, program).with(live).files).toBe(release);
});

test('a live bundle in which every Service is wrong is declined without a judgement of each', () => {
  const [program] = programs;
  const many = (port: number): Cluster => ({
    more: Array.from({ length: 300 }, (_one, at) =>
      service(`s${at}`, {
        clusterIP: `10.96.${1 + Math.floor(at / 200)}.${1 + (at % 200)}`,
        ports: [{ name: 'http', port }],
      }),
    ),
  });
  const release = rendered(many(80), program);
  const made = composer(release, program).with(rendered(many(90), program));
  expect(made.files).toBe(release);
  expect(made.declined.size).toBe(300);
  const told = [...made.declined.values()].filter((why) => why.includes('too many others'));
  expect(told.length).toBeGreaterThan(300 - 2 * liveLimits.declinedMax);
});
