// @module-tag all
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ineligibilityIn } from '@sluice/bundle';
import { beforeEach, expect, test } from 'vitest';
import { type ApiObject, send } from './apiserver.fixture.ts';
import { node, serviceOf } from './objects.fixture.ts';
import { outputOf, until } from './program.fixture.ts';
import { cluster, dir, isThere, out, startWatch, watchedCluster } from './watched.fixture.ts';

watchedCluster();
beforeEach(() => cluster.put('nodes', { ...node, metadata: { name: 'node-b', labels: {} } }));

/** @returns its output up to now */
const watch = (name: string, ...more: readonly string[]): (() => string) =>
  outputOf(startWatch('--node', name, '-o', out, ...more));

const files = (): readonly string[] => readdirSync(out, { recursive: true, encoding: 'utf8' });
const has = (part: string): boolean => files().some((path) => path.includes(part));
const ineligible = (name: string): string | undefined =>
  ineligibilityIn(readFileSync(join(out, 'nodes', name, 'node.yaml'), 'utf8'));
const labelled = (item: ApiObject, ...labels: readonly string[]): ApiObject => ({
  ...item,
  metadata: { ...(item['metadata'] as ApiObject), labels: Object.fromEntries(labels.map((label) => [label, ''])) },
});

test('renders for one node, and asks for what kube-proxy asks for', { timeout: 30_000 }, async () => {
  cluster.put('services', labelled(serviceOf('other', 2), 'service.kubernetes.io/service-proxy-name'));
  watch('node-a');
  await until(isThere);
  expect(readdirSync(join(out, 'nodes'))).toEqual(['node-a']);
  expect(has('services/shop/a.')).toBe(true);
  expect(has('services/shop/other.')).toBe(false);
  const queries = {
    services: 'labelSelector=%21service.kubernetes.io%2Fservice-proxy-name&fieldSelector=spec.clusterIP%21%3DNone',
    endpointslices: 'labelSelector=%21service.kubernetes.io%2Fheadless',
    nodes: 'fieldSelector=metadata.name%3Dnode-a',
  };
  for (const [resource, query] of Object.entries(queries)) {
    const asked = cluster.server.asked.filter((path) => new URL(path, 'https://x').pathname.endsWith(`/${resource}`));
    expect(asked.some((path) => path.includes('watch=1'))).toBe(true);
    expect(asked.filter((path) => !path.includes(query))).toEqual([]);
  }
});

test('follows Services and endpoints that get a label of another proxy', { timeout: 30_000 }, async () => {
  watch('node-a');
  await until(isThere);
  cluster.put('services', serviceOf('b', 2));
  await until(() => has('services/shop/b.'));
  cluster.put('services', labelled(serviceOf('b', 2), 'service.kubernetes.io/service-proxy-name'));
  await until(() => isThere() && !has('services/shop/b.'));
  expect(has('services/shop/a.')).toBe(true);
});

test('takes the profile of its Node, and another one when its labels change', { timeout: 30_000 }, async () => {
  const config = join(dir, 'sluice.yaml');
  writeFileSync(
    config,
    `apiVersion: sluice.dev/v1alpha1
kind: SluiceConfig
nodes: [{ name: node-z, labels: { size: large } }]
profiles:
  - { name: large, nodeSelector: { matchLabels: { size: large } }, mode: nftables }
  - { name: default }
`,
  );
  watch('node-b', '-c', config);
  await until(isThere);
  const profile = (): string => readFileSync(join(out, 'nodes', 'node-b', 'node.yaml'), 'utf8');
  expect(profile()).toContain('profile: default\n');
  expect(readdirSync(join(out, 'profiles'))).toEqual(['default']);
  cluster.put('nodes', { ...node, metadata: { name: 'node-b', labels: { size: 'large' } } });
  await until(() => isThere() && profile().includes('profile: large\n'));
  expect(readdirSync(join(out, 'profiles'))).toEqual(['large']);
  expect(readdirSync(join(out, 'nodes'))).toEqual(['node-b']);
});

test('asks for all Services of an API server before 1.31, which selects none by address', {
  timeout: 30_000,
}, async () => {
  cluster.server.intercept = (path, request, response) => {
    if (!path.includes('spec.clusterIP')) return cluster.answer(path, request, response);
    send(response, 400, { kind: 'Status', message: 'field label not supported: spec.clusterIP' });
    return true;
  };
  watch('node-a');
  await until(isThere);
  expect(has('services/shop/a.')).toBe(true);
});

test('waits for a Node that does not exist yet, and keeps its files without it', { timeout: 40_000 }, async () => {
  const text = watch('node-c');
  await until(() => text().includes('Cannot render for Node node-c: https://'));
  expect(isThere()).toBe(false);
  cluster.put('nodes', { ...node, metadata: { name: 'node-c', labels: {} } });
  await until(isThere);
  cluster.remove('nodes', 'node-c', '');
  await until(() => isThere() && ineligible('node-c') === 'deletionTimestamp');
  expect(readdirSync(join(out, 'nodes'))).toEqual(['node-c']);
  cluster.put('services', serviceOf('b', 2));
  await until(() => has('services/shop/b.'));
  cluster.put('nodes', { ...node, metadata: { name: 'node-c', labels: {} } });
  await until(() => isThere() && ineligible('node-c') === undefined);
});

test.each([
  ['for its Node', ['--node', 'node-a']],
  ['for all Nodes', []],
])(
  'says %s that the cluster autoscaler is to delete it, while that is so',
  { timeout: 40_000 },
  async (_title, args) => {
    void startWatch(...args, '-o', out);
    await until(isThere);
    const taints = [{ key: 'ToBeDeletedByClusterAutoscaler', value: '1', effect: 'NoSchedule' }];
    cluster.put('nodes', { ...node, spec: { ...(node['spec'] as ApiObject), taints } });
    await until(() => isThere() && ineligible('node-a') === 'ToBeDeletedByClusterAutoscaler');
    const conditions = [{ type: 'DrainInProgress', status: 'True', lastHeartbeatTime: '2026-01-02T03:04:05Z' }];
    cluster.put('nodes', { ...node, status: { ...(node['status'] as ApiObject), conditions } });
    await until(() => isThere() && ineligible('node-a') === 'DrainInProgress');
    cluster.put('nodes', node);
    await until(() => isThere() && ineligible('node-a') === undefined);
    expect(readdirSync(join(out, 'nodes'))).toContain('node-a');
  },
);

test('logs the first failure to connect, not the last attempt', { timeout: 30_000 }, async () => {
  let asked = 0;
  cluster.server.intercept = (_path, request) => {
    asked += 1;
    // Later requests get no answer for as long as the test.
    if (asked === 1) request.socket.destroy();
    return true;
  };
  const text = watch('node-a');
  await until(() => text().includes('warning: API configmaps: Cannot read https://'));
  expect(text()).toMatch(/^\S+ info: reads what Node node-a needs from https:/m);
  expect(asked).toBeLessThan(3);
});

test.each([
  ['a name that is none', ['--node', 'node-a,metadata.name=b'], /not the name of a Node/],
  ['commits', ['--node', 'node-a', '--commit'], /cannot be used with option '--commit'/],
  ['a Lease', ['--node', 'node-a', '--lease', 'a/b'], /cannot be used with option '--lease/],
])('refuses %s', async (_title, options, message) => {
  const { exitCode, all } = await startWatch('-o', out, ...options);
  expect(all).toMatch(message);
  expect(exitCode).toBe(2);
});
