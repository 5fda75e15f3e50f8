// @module-tag test
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { quarantineFile, serviceFile } from '@sluice/bundle';
import { execa } from 'execa';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { openAccess } from '../../packages/renderer/src/cluster/access.ts';
import { listByLibrary } from '../../packages/renderer/src/cluster/client-node.fixture.ts';
import { listedKinds } from '../../packages/renderer/src/cluster/kinds.ts';
import { list } from '../../packages/renderer/src/cluster/list.ts';
import { apiServerPrograms } from '../parity/binaries.ts';
import type { ApiObject } from './apiserver.fixture.ts';
import type { RbacRole } from './authorizer.fixture.ts';
import { type TestApi, ownApi } from './api.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';
import { type Started, sluicePath, startSluice, until } from './program.fixture.ts';
import { realApi } from './real-api.fixture.ts';

// The same tests on the project's own API server and on a real one. kubectl writes the objects, and reads them a second time with
// raw requests.

const kubectl = [
  join(process.env['KUBEBUILDER_ASSETS'] ?? '/nowhere', 'kubectl'),
  '/usr/bin/kubectl',
  '/usr/local/bin/kubectl',
].find((path) => existsSync(path));

/** An API server, or the reason why none is available. */
type ApiOrLack = TestApi | { readonly lack: string };

async function openReal(): Promise<ApiOrLack> {
  const programs = await apiServerPrograms();
  return 'lack' in programs ? programs : realApi(programs);
}

const servers: readonly [string, () => Promise<ApiOrLack>][] = [
  ["the project's own API server", ownApi],
  ['a real API server', openReal],
];
const buildMs = 3_600_000;
const timeout = 90_000;
const rbac = '/apis/rbac.authorization.k8s.io/v1';
const services = '/api/v1/namespaces/shop/services';
const slices = '/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices';

describe.each(servers)('%s', { timeout }, (_title, open) => {
  let api: TestApi;
  let lack: string | undefined;
  let dir: string;
  const running: Started[] = [];

  beforeAll(async () => {
    const opened = kubectl === undefined ? { lack: 'kubectl is not installed' } : await open();
    if ('lack' in opened) {
      ({ lack } = opened);
      return;
    }
    api = opened;
    for (const name of ['shop', 'sluice'])
      await create('/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    await create('/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', ...node });
    await create(services, serviceIn(serviceOf('a', 11)));
    await create(slices, { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', ...slice });
  }, buildMs);
  afterAll(async () => api?.close(), timeout);
  beforeEach((context) => {
    if (lack !== undefined) context.skip(lack);
    dir = mkdtempSync(join(tmpdir(), 'sluice-contract-'));
  });
  afterEach(async () => {
    for (const started of running) started.kill('SIGTERM');
    await Promise.all(running.splice(0));
    if (dir !== undefined) rmSync(dir, { recursive: true, force: true });
  }, timeout);

  async function ask(verb: string, path: string, object?: object): Promise<string> {
    const args = ['--kubeconfig', api.admin, verb, '--raw', path, ...(object === undefined ? [] : ['-f', '-'])];
    const { stdout } = await execa(kubectl ?? '', args, object === undefined ? {} : { input: JSON.stringify(object) });
    return stdout;
  }
  const create = (path: string, object: object): Promise<string> => ask('create', path, object);
  const items = async (path: string): Promise<readonly NamedObject[]> =>
    (JSON.parse(await ask('get', path)) as { items: readonly NamedObject[] }).items;

  async function sluice(
    ...args: readonly string[]
  ): Promise<{ exitCode: number | undefined; stdout: string; stderr: string }> {
    const env = { KUBECONFIG: api.kubeconfig };
    const { exitCode, stdout, stderr } = await execa(sluicePath, args, { cwd: dir, env, reject: false });
    return { exitCode, stdout, stderr };
  }
  /** @returns its output up to now */
  function watch(
    output: string,
    ...more: readonly string[]
  ): { readonly started: Started; readonly text: () => string } {
    const started = startSluice(['watch', '-o', output, '--kubeconfig', api.kubeconfig, ...more], dir);
    running.push(started);
    let text = '';
    started.all?.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')));
    return { started, text: () => text };
  }
  const read = (path: string): string => (existsSync(join(dir, path)) ? readFileSync(join(dir, path), 'utf8') : '');
  const rules = (output: string, name: string): string =>
    read(join(output, serviceFile('default', 'shop', name, 'iptables')));
  /** Another render of the cluster would change nothing. */
  const isFresh = async (output: string): Promise<boolean> =>
    (await sluice('render', '--from-cluster', '-o', output, '--check')).exitCode === 0;

  test('reports the missing rules to an account without rights; with the shipped roles it reads everything', async () => {
    const refused = await sluice('snapshot', '-o', 'snapshot.yaml');
    expect(refused.exitCode).toBe(2);
    expect(refused.stderr).toContain(
      'Grant this RBAC rule: {apiGroups: [""], resources: ["services"], verbs: ["list", "watch"]}',
    );
    for (const role of shippedRoles()) await bind(role);
    await until(async () => (await sluice('snapshot', '-o', 'snapshot.yaml')).exitCode === 0);
    expect(read('snapshot.yaml')).toContain('10.244.1.5');
  });

  async function bind(role: RbacRole): Promise<void> {
    const { kind, metadata } = role;
    const where = metadata.namespace === undefined ? rbac : `${rbac}/namespaces/${metadata.namespace}`;
    const plural = `${kind.toLowerCase()}s`;
    await create(`${where}/${plural}`, role);
    await create(`${where}/${kind.toLowerCase()}bindings`, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: `${kind}Binding`,
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind, name: metadata.name },
      subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name: 'sluice' }],
    });
  }

  test.each(['Service', 'EndpointSlice', 'Node'] as const)(
    'lists equal objects as the client library: %s',
    async (kind) => {
      const own = await list(openAccess({ kubeconfig: api.kubeconfig }, {}), listedKinds[kind], { pageObjects: 1 });
      expect(own?.items).toEqual(await listByLibrary(api.kubeconfig, kind, 1));
      expect(own?.items).not.toEqual([]);
    },
  );

  test('a snapshot has what kubectl lists, is the same twice, and renders as the cluster does', async () => {
    const first = await sluice('snapshot', '-o', '-', '-n', 'shop');
    expect(first).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('snapshot: ') });
    expect((await sluice('snapshot', '-o', '-', '-n', 'shop')).stdout.replaceAll(/: "\d+"$/gm, '')).toBe(
      first.stdout.replaceAll(/: "\d+"$/gm, ''),
    );
    const seen = (await items(services)).map(({ metadata }) => metadata.name);
    const held = parseAllDocuments(first.stdout).map((document) => document.toJS() as NamedObject & { kind: string });
    expect(held.filter(({ kind }) => kind === 'Service').map(({ metadata }) => metadata.name)).toEqual(seen.toSorted());
    await sluice('snapshot', '-o', 'snapshot.yaml');
    expect(await sluice('render', '-f', 'snapshot.yaml', '-o', 'rendered')).toMatchObject({ exitCode: 0 });
    expect(await isFresh('rendered')).toBe(true);
  });

  test('watch renders what kubectl creates, replaces and deletes', async () => {
    watch('followed');
    await until(() => rules('followed', 'a').includes('10.244.1.5:8080'));
    await create(services, serviceIn(serviceOf('b', 12)));
    await create(slices, sliceOf('b', '10.244.1.7'));
    await until(() => rules('followed', 'b').includes('10.244.1.7:8080'));
    await ask('replace', `${slices}/b-1`, sliceOf('b', '10.244.1.8'));
    await until(() => rules('followed', 'b').includes('10.244.1.8:8080'));
    await ask('delete', `${slices}/b-1`);
    await ask('delete', `${services}/b`);
    await until(() => rules('followed', 'b') === '');
    await until(() => isFresh('followed'));
    expect(rules('followed', 'a')).toContain('10.244.1.5:8080');
  });

  test('the older of two Services with one address keeps it, and the younger gets an Event', async () => {
    const { text } = watch('around', '--events');
    await create(services, claiming(serviceOf('old', 13)));
    await until(() => rules('around', 'old').includes('192.0.2.80'));
    // Ages have whole seconds.
    const [old] = (await items(services)).filter(({ metadata }) => metadata.name === 'old');
    await until(() => Date.now() >= Date.parse(old?.metadata.creationTimestamp ?? '') + 2_000);
    await create(services, claiming(serviceOf('new', 14)));
    await until(() => read(join('around', quarantineFile)).includes('Service shop/new'));
    expect(rules('around', 'old')).toContain('192.0.2.80');
    expect(rules('around', 'new')).toBe('');
    await until(async () =>
      (await items('/api/v1/namespaces/shop/events')).some(
        ({ reason, involvedObject }) => reason === 'Quarantined' && involvedObject?.name === 'new',
      ),
    );
    expect(text()).toContain('quarantine: Service shop/new: it has no rules: ');
    await ask('delete', `${services}/old`);
    await until(() => rules('around', 'new').includes('192.0.2.80') && read(join('around', quarantineFile)) === '');
    await ask('delete', `${services}/new`);
    await until(() => isFresh('around'));
  });

  test('of two watchers the holder of the Lease writes; when it ends, the other one does', async () => {
    const first = watch('one', '--lease', 'sluice/sluice-watch');
    await until(() => rules('one', 'a') !== '');
    const second = watch('two', '--lease', 'sluice/sluice-watch');
    await create(services, serviceIn(serviceOf('c', 15)));
    await until(() => rules('one', 'c') !== '');
    expect(second.text()).not.toContain('holds Lease');
    expect(rules('two', 'c')).toBe('');
    first.started.kill('SIGTERM');
    await first.started;
    await until(() => rules('two', 'c') !== '');
    expect(second.text()).toContain('holds Lease sluice/sluice-watch');
    await ask('delete', `${services}/c`);
    await until(() => isFresh('two'));
  });
});

interface NamedObject {
  readonly metadata: { readonly name: string; readonly creationTimestamp?: string };
  readonly reason?: string;
  readonly involvedObject?: { readonly name: string };
}

/** The object as kubectl would send it: without fields that only a server sets. */
function serviceIn(item: ApiObject): object {
  const { name, namespace } = item['metadata'] as { name: string; namespace: string };
  return { apiVersion: 'v1', kind: 'Service', metadata: { name, namespace }, spec: item['spec'] };
}

function claiming(item: ApiObject): object {
  return { ...serviceIn(item), spec: { ...(item['spec'] as ApiObject), externalIPs: ['192.0.2.80'] } };
}

function sliceOf(name: string, address: string): object {
  const metadata = { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } };
  const endpoints = [{ addresses: [address], conditions: { ready: true }, nodeName: 'node-a' }];
  return { ...slice, apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice', metadata, endpoints };
}

/** The roles of the shipped manifests. */
function shippedRoles(): readonly RbacRole[] {
  const deploy = join(import.meta.dirname, '..', '..', 'deploy');
  return ['clusterrole.yaml', 'watch.yaml']
    .flatMap((file) => parseAllDocuments(readFileSync(join(deploy, file), 'utf8')))
    .map((document) => document.toJS() as RbacRole)
    .filter(({ kind }) => kind === 'ClusterRole' || kind === 'Role');
}
