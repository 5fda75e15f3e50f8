// @module-tag test
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type ApiObject, send, startApiServer, type TestApiServer, token } from './apiserver.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';

/** These tests start programs, on a machine that may be busy. */
const startsProgramsMs = 30_000;
const sluicePath = programPath('sluice');
let server: TestApiServer;
let dir: string;

beforeAll(async () => {
  server = await startApiServer();
});
beforeEach(() => {
  server.intercept = () => false;
  dir = mkdtempSync(join(tmpdir(), 'sluice-cli-'));
  server.objects.set('services', [serviceOf('a', 1)]);
  server.objects.set('endpointslices', [slice]);
  server.objects.set('nodes', [node]);
  return () => rmSync(dir, { recursive: true });
});
afterAll(() => server.close());

interface SluiceRun {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | undefined;
}

/** Runs the program as a user does, with the kubeconfig in the environment. */
async function sluice(...args: string[]): Promise<SluiceRun> {
  const env = { KUBECONFIG: server.kubeconfig({ token }) };
  const { stdout, stderr, exitCode } = await execa(sluicePath, args, { cwd: dir, env, reject: false });
  return { stdout, stderr, exitCode };
}

const read = (path: string): string => readFileSync(join(dir, path), 'utf8');

test(
  'a rendered snapshot equals the result of --from-cluster',
  async () => {
    expect(await sluice('snapshot', '-o', 'snapshot.yaml')).toEqual({
      stdout: '',
      stderr: 'snapshot.yaml: 1 services, 1 endpointslices, 1 nodes',
      exitCode: 0,
    });
    const fromFile = await sluice('render', '-f', 'snapshot.yaml', '-o', 'rendered');
    expect(fromFile).toMatchObject({ exitCode: 0 });
    expect(readdirSync(dir).toSorted()).toEqual(['rendered', 'snapshot.yaml']);
    const fromCluster = await sluice('render', '--from-cluster', '-o', 'rendered', '--check');
    expect(fromCluster).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('is up to date') });
  },
  startsProgramsMs,
);

test(
  'a directory is a set: files of removed kinds are deleted, and the header is rewritten',
  async () => {
    mkdirSync(join(dir, 'set'));
    for (const name of ['endpoints.yaml', 'notes.txt']) writeFileSync(join(dir, 'set', name), 'from an earlier run\n');
    expect(await sluice('snapshot', '-o', 'set')).toMatchObject({ exitCode: 0 });
    const files = ['endpointslices.yaml', 'nodes.yaml', 'notes.txt', 'services.yaml', 'snapshot.yaml'];
    expect(readdirSync(join(dir, 'set')).toSorted()).toEqual(files);
    rmSync(join(dir, 'set/notes.txt'));
    const one = await sluice('snapshot', '-o', '-');
    const parts = ['snapshot', 'endpointslices', 'nodes', 'services'].map((name) => read(`set/${name}.yaml`));
    expect(`${one.stdout}\n`).toBe(parts.join(''));
    expect((await sluice('render', '-f', 'set', '-o', 'rendered')).exitCode).toBe(0);
    expect(read('rendered/cluster.yaml')).toContain('complete: true');
  },
  startsProgramsMs,
);

test(
  'writes to a device and does not replace it',
  async () => {
    const { stdout } = await sluice('snapshot', '-o', '-');
    const env = { KUBECONFIG: server.kubeconfig({ token }) };
    // Through a real pipe: execa gives a program a socket, which cannot be opened by path.
    const piped = await execa('sh', ['-c', `${sluicePath} snapshot -o /dev/stdout | cat`], { cwd: dir, env });
    expect(piped.stdout).toBe(stdout);
    expect(stdout).toContain('kind: Snapshot');
  },
  startsProgramsMs,
);

test(
  'a failed snapshot leaves the last one and no other file',
  async () => {
    writeFileSync(join(dir, 'snapshot.yaml'), 'the last one\n');
    server.intercept = (path, _request, response) => {
      if (!path.includes('/nodes')) return false;
      send(response, 403, {});
      return true;
    };
    const { exitCode, stderr } = await sluice('snapshot', '-o', 'snapshot.yaml');
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/error: Cannot list nodes of https:\S+: permission denied \[CLUSTER_FORBIDDEN\]/);
    expect(stderr).toContain('Grant this RBAC rule: {apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch"]}');
    expect(readdirSync(dir)).toEqual(['snapshot.yaml']);
    expect(read('snapshot.yaml')).toBe('the last one\n');
  },
  startsProgramsMs,
);

test(
  '--from-cluster keeps a bundle of Services that the cluster suddenly lacks, until it is told that they are gone',
  async () => {
    const names = Array.from({ length: 12 }, (_, index) => `s${index}`);
    const endpointsOf = (name: string): ApiObject => ({
      ...slice,
      metadata: { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
    });
    server.objects.set('services', names.map(serviceOf));
    server.objects.set('endpointslices', names.map(endpointsOf));
    const again = (...more: readonly string[]) => sluice('render', '--from-cluster', '-o', 'rendered', ...more);
    expect(await again()).toMatchObject({ exitCode: 0 });
    const filesThere = (): number => readdirSync(join(dir, 'rendered'), { recursive: true }).length;
    const whole = filesThere();
    const held = {
      exitCode: 2,
      stderr: expect.stringMatching(/Cannot take away 12 of 12 Services, .* \[REMOVAL_HELD\]/),
    };
    // Slices that cannot be seen, and Services.
    for (const kind of ['endpointslices', 'services']) {
      server.objects.set(kind, []);
      expect(await again()).toMatchObject(held);
      expect(filesThere()).toBe(whole);
      expect(await again('--check')).toMatchObject({ exitCode: 1 });
    }
    expect(await again('--accept-removal')).toMatchObject({ exitCode: 0 });
    expect(filesThere()).toBeLessThan(whole);
    // What is small is no removal, and neither is a first bundle.
    server.objects.set('services', names.map(serviceOf));
    server.objects.set('endpointslices', names.map(endpointsOf));
    expect(await again()).toMatchObject({ exitCode: 0 });
    server.objects.set(
      'services',
      names.slice(6).map((name, index) => serviceOf(name, index + 6)),
    );
    expect(await again()).toMatchObject({ exitCode: 0 });
  },
  startsProgramsMs * 2,
);

test(
  '--redact replaces names',
  async () => {
    await sluice('snapshot', '-o', 'snapshot.yaml', '--redact');
    expect(read('snapshot.yaml')).toContain('redacted: true');
    expect(read('snapshot.yaml')).not.toMatch(/shop|node-a|192\.0\.2\.1|10\.96\./);
    expect((await sluice('render', '-f', 'snapshot.yaml', '-o', 'rendered')).exitCode).toBe(0);
  },
  startsProgramsMs,
);

test.each([
  ['in a file', ['snapshot', '-o', 'in.yaml'], ['-f', 'in.yaml'], 0],
  ['under other names', ['snapshot', '-o', 'in.yaml', '--redact'], ['-f', 'in.yaml'], 1],
  ['of the cluster itself', ['snapshot', '-o', 'in.yaml'], ['--from-cluster'], 0],
])(
  'keeps EndpointSlices without a Service in a snapshot, and ignores them when it is rendered: %s',
  async (_title, snapshot, input, difference) => {
    await sluice('render', '--from-cluster', '-o', 'before');
    const loose = (name: string, labels?: ApiObject): ApiObject => ({
      ...slice,
      metadata: { name, namespace: 'shop', ...(labels && { labels }) },
    });
    const all = [slice, loose('loose'), loose('empty', { 'kubernetes.io/service-name': '' })];
    server.objects.set('endpointslices', all);
    const counted = expect.stringContaining('3 endpointslices');
    expect(await sluice(...snapshot)).toMatchObject({ exitCode: 0, stderr: counted });
    const { exitCode, stderr } = await sluice('render', ...input, '-o', 'rendered');
    expect(exitCode).toBe(0);
    expect(stderr.match(/warning: EndpointSlice .*\[SLICE_WITHOUT_SERVICE\]/g)).toHaveLength(2);
    expect(await sluice('render', ...input, '-o', 'before', '--check')).toMatchObject({ exitCode: difference });
  },
  startsProgramsMs,
);
