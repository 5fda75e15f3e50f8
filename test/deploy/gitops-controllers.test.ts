// @module-tag all
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { execa, execaSync } from 'execa';
import { afterAll, beforeEach, describe, expect, onTestFinished, test, type TestContext } from 'vitest';
import { parseAllDocuments, stringify } from 'yaml';
import type { Answer } from '../cluster/ask.fixture.ts';
import { apiServerPrograms } from '../parity/binaries.ts';
import { servicesPath } from './gitops-cluster.ts';
import { FluxCluster, fluxFile } from './gitops-flux.ts';
import { needController, needFlux } from './gitops-programs.ts';
import { needModule } from './resource-schemas.ts';

/** What docs/argo-cd-and-flux.md says of Flux, by its command and its controllers. */

const root = join(import.meta.dirname, '../..');
const example = join(root, 'examples/gitops');
const buildMs = 3 * 3_600_000;

/** Files of the example, path → text; of the manifests only the Services. */
const files = Object.fromEntries(
  globSync('{manifests,rendered,allocations}/**/*.yaml', { cwd: example }).map((path) => {
    const text = readFileSync(join(example, path), 'utf8');
    return [path, path.startsWith('manifests/') ? withoutSlices(text) : text];
  }),
);

function withoutSlices(text: string): string {
  const services = parseAllDocuments(text).filter((document) => document.get('kind') === 'Service');
  return services.map((document) => stringify(document.toJS())).join('---\n');
}

describe('the command flux', { timeout: buildMs }, () => {
  function exampleFolder(): string {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-flux-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    return folder;
  }
  const build = ['build', 'kustomization', 'services', '--dry-run', '--kustomization-file', fluxFile, '--path'];

  test('builds the Services of the manifests, and nothing else', async (context) => {
    const { stdout } = await execa(await needFlux(context), [...build, join(exampleFolder(), 'manifests')]);
    const built = parseAllDocuments(stdout.replace(/---\s*$/, '')).map(
      (document) => document.toJS() as { kind: string; metadata: object },
    );
    expect(built.map(({ kind }) => kind)).toEqual(['Service', 'Service', 'Service']);
    expect(built.map(({ metadata }) => metadata)).toMatchObject(['api', 'ledger', 'web'].map((name) => ({ name })));
  });

  test('refuses a bundle as a path', async (context) => {
    const ran = await execa(await needFlux(context), [...build, join(exampleFolder(), 'rendered')], { reject: false });
    expect(ran.exitCode).toBe(1);
    expect(ran.stderr).toContain('missing metadata.name in object {{sluice.dev/v1alpha1');
  });

  test('packs the manifests alone by the pattern of the file', async (context) => {
    const flux = await needFlux(context);
    const folder = exampleFolder();
    const source = parseAllDocuments(readFileSync(fluxFile, 'utf8'))[0]?.toJS() as { spec: { ignore: string } };
    const ignored = source.spec.ignore.trim().split('\n').join(',');
    const packed = join(folder, 'packed.tgz');
    await execa(flux, ['build', 'artifact', '--path', folder, '--output', packed, '--ignore-paths', ignored]);
    expect(filesIn(packed)).toEqual(globSync('manifests/**/*.yaml', { cwd: example }).toSorted());
  });
});

/** The files of an archive, without its folders. */
const filesIn = (archive: string): readonly string[] =>
  execaSync('tar', ['-tzf', archive])
    .stdout.split('\n')
    .filter((path) => path.endsWith('.yaml'))
    .toSorted();

const web = `${servicesPath}/web`;
const slices = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';

describe('Flux’ controllers', { timeout: 180_000 }, () => {
  let cluster: FluxCluster | undefined;

  beforeEach(async (context) => {
    cluster ??= await startCluster(context);
    await cluster.sync({ ...files, 'manifests/cluster.yaml': undefined });
  }, buildMs);
  afterAll(() => cluster?.close(), 60_000);

  test('apply the Services of the manifests, and fetch nothing else', async () => {
    const { commit, ready } = await cluster!.sync(files);
    expect(ready).toMatchObject({ status: 'True', message: `Applied revision: main@sha1:${commit}` });
    expect(await cluster!.admin.namesIn(servicesPath)).toEqual(['api', 'ledger', 'web']);
    expect(await cluster!.admin.namesIn(slices)).toEqual([]);
    const [archive = ''] = globSync(`**/${commit}.tar.gz`, { cwd: cluster!.artifacts });
    const manifests = globSync('manifests/**/*.yaml', { cwd: example });
    expect(filesIn(join(cluster!.artifacts, archive))).toEqual(manifests.toSorted());
  });

  const edit = (spec: object, manager = 'kubectl-edit'): Promise<Answer> =>
    cluster!.admin.ask('PATCH', `${web}?fieldManager=${manager}`, { spec }, 'application/merge-patch+json');
  const text = { selector: { app: 'web' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }], type: 'ClusterIP' };

  test.for([
    ['of a selector', { selector: { app: 'other' } }],
    ['of a target', { ports: [{ name: 'http', port: 80, targetPort: 8081 }] }],
    ['that adds a port', { ports: [...text.ports, { name: 'more', port: 90 }] }],
    ['that adds a node port', { type: 'NodePort' }],
    ['that adds an address', { externalIPs: ['192.0.2.9'] }],
  ] as const)('take an edit back %s', async ([, spec]) => {
    expect((await edit(spec)).object).toMatchObject({ spec });
    expect((await cluster!.sync({})).ready.status).toBe('True');
    const now = await cluster!.admin.service('web');
    expect(now).toMatchObject(text);
    expect(now).not.toHaveProperty('externalIPs');
  });

  test('keep what another program than kubectl adds', async () => {
    await edit({ externalIPs: ['192.0.2.9'] }, 'another-controller');
    expect((await cluster!.sync({})).ready.status).toBe('True');
    expect(await cluster!.admin.service('web')).toMatchObject({ externalIPs: ['192.0.2.9'] });
    await edit({ externalIPs: null }, 'another-controller');
  });

  test('stop at an edit of the number of a named port, until it is taken back by hand', async () => {
    await edit({ ports: [{ name: 'http', port: 81, targetPort: 8080 }] });
    const { ready } = await cluster!.sync({});
    expect(ready.message).toContain('Service "web" is invalid: spec.ports[1].name: Duplicate value: "http"');
    expect(await cluster!.admin.portsOf('web')).toEqual([81]);
    await edit({ ports: text.ports });
    expect((await cluster!.sync({})).ready.status).toBe('True');
  });

  test('keep a Service whose manifest is gone', async () => {
    const { ready } = await cluster!.sync({ 'manifests/shop/ledger.yaml': undefined });
    expect(ready.status).toBe('True');
    expect(await cluster!.admin.namesIn(servicesPath)).toEqual(['api', 'ledger', 'web']);
  });

  test('apply nothing of a change with EndpointSlices, and name them', async () => {
    const withSlices = readFileSync(join(example, 'manifests/shop/web.yaml'), 'utf8');
    const { ready } = await cluster!.sync({
      'manifests/shop/api.yaml': files['manifests/shop/api.yaml']?.replace('port: 9000', 'port: 9001'),
      'manifests/shop/web.yaml': withSlices,
    });
    expect(ready).toMatchObject({ status: 'False', reason: 'ReconciliationFailed' });
    expect(ready.message).toContain(
      'EndpointSlice/shop/web-1 dry-run failed (Forbidden): endpointslices.discovery.k8s.io "web-1" is forbidden: ' +
        'User "system:serviceaccount:flux-system:services" cannot patch resource "endpointslices" in API group "discovery.k8s.io" in the namespace "shop"',
    );
    expect(await cluster!.admin.portsOf('api')).toEqual([9000]);
    expect(await cluster!.admin.namesIn(slices)).toEqual([]);
  });

  test('apply nothing of a change with a bundle, and name it', async () => {
    const { ready } = await cluster!.sync({
      'manifests/cluster.yaml': files['rendered/cluster.yaml'],
      'manifests/shop/web.yaml': files['manifests/shop/web.yaml']?.replace('port: 80', 'port: 82'),
    });
    expect(ready).toMatchObject({ status: 'False', reason: 'BuildFailed' });
    expect(ready.message).toContain('missing metadata.name in object {{sluice.dev/v1alpha1 Cluster}');
    expect(await cluster!.admin.portsOf('web')).toEqual([80]);
  });

  test('are ready before a load balancer has an address', async () => {
    const balanced = files['manifests/shop/web.yaml']?.replace('spec:', 'spec:\n  type: LoadBalancer');
    const { commit, ready } = await cluster!.sync({ 'manifests/shop/web.yaml': balanced });
    expect(ready).toMatchObject({ status: 'True', message: `Applied revision: main@sha1:${commit}` });
    const { object } = await cluster!.admin.ask('GET', web);
    expect(object).toMatchObject({ spec: { type: 'LoadBalancer' }, status: { loadBalancer: {} } });
  });
});

async function startCluster(context: TestContext): Promise<FluxCluster> {
  const programs = await apiServerPrograms();
  if ('lack' in programs) context.skip(programs.lack);
  const flux = {
    source: await needController(context, 'source-controller'),
    kustomize: await needController(context, 'kustomize-controller'),
  };
  const modules = (['Flux’ sources', 'Flux’ kustomizations'] as const).map((name) => needModule(context, name));
  return FluxCluster.start(programs, flux, modules, files);
}
