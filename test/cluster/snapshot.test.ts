import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { openAccess } from '../../packages/renderer/src/cluster/access.ts';
import { configMapRule, kubeProxyConfigMaps, listedKinds } from '../../packages/renderer/src/cluster/kinds.ts';
import { printSnapshot, takeSnapshot } from '../../packages/renderer/src/cluster/snapshot.ts';
import { readInput } from '../../packages/renderer/src/commands/input/input.ts';
import { normalise } from '../../packages/renderer/src/render/normalise.ts';
import { render } from '../../packages/renderer/src/render/render.ts';
import { type ApiObject, send, startApiServer, type TestApiServer, token } from './apiserver.fixture.ts';
import { endpoints, node, serviceCIDROf, serviceOf, slice } from './objects.fixture.ts';

let server: TestApiServer;
let out: string;
const gzip = { 'content-encoding': 'gzip' };
const patience = { requestTimeoutMs: 300, backoffMs: 1, answerBytesMax: 100_000 };

beforeAll(async () => {
  server = await startApiServer();
  out = mkdtempSync(join(tmpdir(), 'sluice-snapshot-'));
});
afterAll(async () => {
  await server.close();
  rmSync(out, { recursive: true });
});
beforeEach(() => {
  server.intercept = () => false;
  server.asked.length = 0;
  server.objects.clear();
  server.objects.set('services', [serviceOf('c', 3), serviceOf('a', 1), serviceOf('b', 2)]);
  server.objects.set('endpointslices', [slice]);
  server.objects.set('nodes', [node]);
});

const access = (user: ApiObject = { token }, cluster?: ApiObject) =>
  openAccess({ kubeconfig: server.kubeconfig(user, cluster) }, {});
const everything = { namespaces: [] };
const take = async (pageObjects = 2): Promise<string> =>
  printSnapshot(await takeSnapshot(access(), everything, { pageObjects, patience }));

test('the order and pages of lists change no byte', async () => {
  const before = await take(1);
  server.objects.set('services', [serviceOf('b', 2), serviceOf('c', 3), serviceOf('a', 1)]);
  expect(await take(500)).toBe(before);
  expect(before.match(/^ {2}name: [abc]$/gm)).toEqual(['  name: a', '  name: b', '  name: c']);
  expect(before).not.toMatch(/managedFields|uid|memory|conditions:\n +- \{\}|other/);
});

describe('a server that misbehaves once', () => {
  test.each<[string, (response: import('node:http').ServerResponse) => void]>([
    ['expires the list between two pages', (response) => send(response, 410, {})],
    ['drops the connection', (response) => response.socket?.destroy()],
    ['drops it within an answer', (response) => response.write('{"kind":', () => response.socket?.destroy())],
    ['says that it compressed what it did not', (response) => response.writeHead(200, gzip).end('{}')],
    ['is overloaded', (response) => send(response, 503, {})],
    ['never answers', () => {}],
  ])('and %s is retried', async (_title, misbehave) => {
    const calm = await take();
    let isFirst = true;
    server.intercept = (path, _request, response) => {
      if (!path.includes('continue') || !isFirst) return false;
      isFirst = false;
      misbehave(response);
      return true;
    };
    expect(await take()).toBe(calm);
    expect(isFirst).toBe(false);
  });
});

test.each<[string, number | string | Buffer, string, RegExp, RegExp]>([
  [
    'without the right',
    403,
    'CLUSTER_FORBIDDEN',
    /permission denied/,
    /resources: \["endpointslices"\], verbs: \["list", "watch"\]/,
  ],
  ['with refused credentials', 401, 'CLUSTER_ACCESS', /credentials/, /Log in/],
  ['behind a login page', '<html>', 'CLUSTER_UNREACHABLE', /not of kind EndpointSliceList/, /proxy/],
  ['with an endless answer', 'x'.repeat(200_000), 'INPUT_TOO_LARGE', /larger than 100000 bytes/, /smaller/],
  ['with an answer that unpacks without end', gzipSync('x'.repeat(200_000)), 'INPUT_TOO_LARGE', /larger than/, /small/],
  ['of a server that stays broken', 500, 'CLUSTER_UNREACHABLE', /answered 500/, /network/],
])('reports the cause to a client %s', async (_title, answer, code, message, hint) => {
  server.intercept = (path, _request, response) => {
    if (!path.includes('endpointslices')) return false;
    if (typeof answer === 'number') send(response, answer, {});
    else response.writeHead(200, typeof answer === 'string' ? {} : gzip).end(answer);
    return true;
  };
  await expect(take()).rejects.toMatchObject({
    problem: { code, message: expect.stringMatching(message), hint: expect.stringMatching(hint) },
  });
});

test('allocates no address from a ServiceCIDR that is closed in the snapshot', async () => {
  const { metadata, spec } = serviceCIDROf('more', '10.200.0.0/24');
  const ended = { metadata: { ...(metadata as ApiObject), deletionTimestamp: '2026-01-02T03:04:05Z' }, spec };
  const notReady = {
    metadata,
    spec,
    status: { conditions: [{ type: 'Ready', status: 'False', reason: 'Terminating' }] },
  };
  for (const [more, closed] of [
    [serviceCIDROf('more', '10.200.0.0/24'), []],
    [ended, ['10.200.0.0/24']],
    [notReady, ['10.200.0.0/24']],
  ] as const) {
    server.objects.set('servicecidrs', [more]);
    const kubeconfig = server.kubeconfig({ token });
    const { input } = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
    expect(normalise(input).config.closedServiceCIDRs).toEqual(closed);
  }
});

test('rendering a cluster and its snapshot gives the same bytes', async () => {
  const kubeconfig = server.kubeconfig({ token });
  const file = join(out, 'snapshot.yaml');
  writeFileSync(file, await take());
  const direct = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
  const stored = await readInput({ filename: [file], output: join(out, 'rendered') });
  expect(direct.problems).toEqual([]);
  expect(direct.input).toMatchObject({ allocate: false, snapshot: true });
  expect(render(direct.input).files).toEqual(render(stored.input).files);
  expect(render(direct.input).files.size).toBeGreaterThan(5);
});

test('a snapshot of a cluster without slices has Endpoints, and renders to the same rules', async () => {
  const rules = async (): Promise<string | undefined> => {
    const kubeconfig = server.kubeconfig({ token });
    const { input } = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
    return render(input).files.get('profiles/default/services/shop/a.iptables');
  };
  const withSlices = await rules();
  server.objects.delete('endpointslices');
  server.objects.set('endpoints', [endpoints]);
  expect(await rules()).toBe(withSlices);
  expect(withSlices).toContain('10.244.1.5:8080');
});

describe("kube-proxy's ConfigMap", () => {
  const conf =
    'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\n';
  const configMap = {
    kind: 'ConfigMap',
    metadata: { name: 'kube-proxy', namespace: 'kube-system', uid: 'u' },
    data: { 'config.conf': conf, 'kubeconfig.conf': 'a path' },
  };
  const answering = (status: number, body: unknown): void => {
    server.intercept = (path, _request, response) => {
      if (!path.includes('/configmaps/kube-proxy')) return false;
      if (typeof body === 'string') response.end(body);
      else send(response, status, body);
      return true;
    };
  };

  test('is kept as far as kube-proxy reads it, and affects the rules', async () => {
    answering(200, configMap);
    const text = await take();
    expect(text).toContain('clusterCIDR: 10.244.0.0/16');
    expect(text).not.toContain('a path');
    const kubeconfig = server.kubeconfig({ token });
    const { input } = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
    expect(render(input).files.get('profiles/default/profile.yaml')).toContain('clusterCIDR: 10.244.0.0/16');
  });

  test('without the right to read it is a note with the missing rule, and the snapshot continues', async () => {
    answering(403, {});
    const { notes, parts } = await takeSnapshot(access(), everything, { patience });
    expect(notes).toMatchObject([
      { code: 'CLUSTER_FORBIDDEN', level: 'note', hint: expect.stringContaining('"configmaps"') },
    ]);
    expect(parts.has('configmaps')).toBe(false);
  });

  const named = (name: string, key: string) => ({
    metadata: { name, namespace: 'kube-system' },
    data: { [key]: conf },
  });
  const other = { metadata: { name: 'kube-proxy', namespace: 'kube-system' }, data: { kubeconfig: 'a secret' } };

  test.each([
    ['EKS', [other, named('kube-proxy-config', 'config')]],
    ['Gardener', [named('kube-proxy-config-1a2b', 'config.yaml'), other]],
  ])('of %s is found by its content among those of kube-system', async (_title, objects) => {
    server.objects.set('configmaps', objects);
    const text = await take();
    expect(text.match(/kind: ConfigMap/g)).toHaveLength(1);
    expect(text).not.toContain('a secret');
    expect(server.asked).toContainEqual(expect.stringMatching(/namespaces\/kube-system\/configmaps\?/));
    const kubeconfig = server.kubeconfig({ token });
    const { input } = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
    expect(render(input).files.get('profiles/default/profile.yaml')).toContain('clusterCIDR: 10.244.0.0/16');
  });

  test('of EKS is found by its name without the right to list', async () => {
    server.intercept = (path, _request, response) => {
      if (!path.includes('/configmaps')) return false;
      if (path.includes('/configmaps?')) send(response, 403, {});
      else if (path.endsWith('/kube-proxy')) send(response, 200, { kind: 'ConfigMap', ...other });
      else send(response, 200, { kind: 'ConfigMap', ...named('kube-proxy-config', 'config') });
      return true;
    };
    const { notes, parts } = await takeSnapshot(access(), everything, { patience });
    expect([notes, parts.get('configmaps')?.map(({ data }) => data)]).toEqual([[], [{ config: conf }]]);
  });

  test('that does not exist is a note: flags may start kube-proxy', async () => {
    server.objects.set('configmaps', [other]);
    const { notes, parts } = await takeSnapshot(access(), everything, { patience });
    expect(notes).toMatchObject([{ code: 'INPUT_EMPTY', level: 'note', hint: expect.stringContaining('flags') }]);
    expect(parts.has('configmaps')).toBe(false);
  });

  test('twice with contradicting contents stops a render', async () => {
    const ipvs = { ...named('kube-proxy-edge', 'c'), data: { c: `${conf}mode: ipvs\n` } };
    server.objects.set('configmaps', [named('kube-proxy', 'config.conf'), ipvs]);
    const kubeconfig = server.kubeconfig({ token });
    const { problems } = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
    expect(problems).toMatchObject([
      { code: 'CONFIG_INVALID', message: expect.stringContaining('mode is "ipvs" here') },
    ]);
  });

  test.each([
    ['no JSON', '{'],
    ['another kind', { kind: 'Status' }],
  ])('that is %s is reported as a problem of the server', async (_title, body) => {
    answering(200, body);
    await expect(take()).rejects.toMatchObject({ problem: { code: 'CLUSTER_UNREACHABLE' } });
  });
});

describe('ServiceCIDRs', () => {
  const clusterFile = async (): Promise<string | undefined> => {
    const kubeconfig = server.kubeconfig({ token });
    const { input } = await readInput({ fromCluster: true, kubeconfig, output: join(out, 'rendered') });
    return render(input).files.get('cluster.yaml');
  };

  test('are kept without their status, and set serviceCIDRs', async () => {
    server.objects.set('servicecidrs', [
      serviceCIDROf('more', '10.200.0.0/24'),
      serviceCIDROf('kubernetes', '10.64.0.0/16', 'fd00:96::/112'),
    ]);
    const text = await take();
    expect(text.match(/kind: ServiceCIDR\n/g)).toHaveLength(2);
    expect(text).not.toMatch(/Ready|finalizer/);
    expect(text).toMatch(/^ {2}servicecidrs: /m);
    expect(await clusterFile()).toContain('serviceCIDRs:\n  - 10.200.0.0/24\n  - 10.64.0.0/16\n  - fd00:96::/112\n');
  });

  test('are optional: without them the default applies', async () => {
    const { notes, parts } = await takeSnapshot(access(), everything, { patience });
    expect(notes).toEqual([]);
    expect(parts.has('servicecidrs')).toBe(false);
    expect(await clusterFile()).toContain('serviceCIDRs:\n  - 10.96.0.0/12\n');
  });

  test('without the right to read them are a note with the missing rule, and the snapshot continues', async () => {
    server.intercept = (path, _request, response) => {
      if (!path.includes('/servicecidrs')) return false;
      send(response, 403, {});
      return true;
    };
    const { notes, parts } = await takeSnapshot(access(), everything, { patience });
    expect(notes).toMatchObject([
      {
        code: 'CLUSTER_FORBIDDEN',
        level: 'note',
        message: expect.stringContaining('so serviceCIDRs of sluice.yaml, or the default, are used'),
        hint: expect.stringContaining('resources: ["servicecidrs"], verbs: ["list", "watch"]'),
      },
    ]);
    expect(parts.has('nodes')).toBe(true);
    expect(parts.has('servicecidrs')).toBe(false);
  });

  test('fail the snapshot when the server stays broken', async () => {
    server.intercept = (path, _request, response) => {
      if (!path.includes('/servicecidrs')) return false;
      send(response, 500, {});
      return true;
    };
    await expect(take()).rejects.toMatchObject({ problem: { code: 'CLUSTER_UNREACHABLE' } });
  });
});

test('refuses a snapshot of another format', async () => {
  const file = join(out, 'later.yaml');
  writeFileSync(file, (await take()).replace('format: 1', 'format: 2'));
  expect((await readInput({ filename: [file] })).problems).toMatchObject([
    { code: 'API_VERSION_UNKNOWN', at: { line: expect.any(Number) }, message: expect.stringContaining('format 2') },
  ]);
});

test('treats a snapshot of some namespaces as incomplete', async () => {
  const snapshot = await takeSnapshot(access(), { namespaces: ['shop'] }, { patience });
  const file = join(out, 'partial.yaml');
  writeFileSync(file, printSnapshot(snapshot));
  expect(server.asked).toContainEqual(expect.stringMatching(/namespaces\/shop\/services\?/));
  expect((await readInput({ filename: [file] })).input.snapshot).toBe(false);
});

test('the shipped roles grant exactly the rights that the code needs', () => {
  const text = readFileSync(join(import.meta.dirname, '../../deploy/clusterrole.yaml'), 'utf8');
  const [everywhere, one] = parseAllDocuments(text).map((document) => document.toJS() as RoleManifest) as [
    RoleManifest,
    RoleManifest,
  ];
  const granted = everywhere.rules.flatMap(({ apiGroups, resources, verbs }) =>
    resources.map((resource) => `${apiGroups.join()}/${resource} ${verbs.join()}`),
  );
  const needed = Object.values(listedKinds).map(({ group, resource }) => `${group}/${resource} list,watch`);
  expect(granted.toSorted()).toEqual(needed.toSorted());
  expect(one.metadata.namespace).toBe(kubeProxyConfigMaps.namespace);
  expect(one.rules).toEqual([parse(configMapRule)]);
});

interface RoleManifest {
  readonly metadata: { readonly namespace?: string };
  readonly rules: readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
}
