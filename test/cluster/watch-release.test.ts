// @module-tag all
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { quarantineFile, readQuarantine } from '@sluice/bundle';
import { execa } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import type { ApiObject } from './apiserver.fixture.ts';
import { serviceOf, slice } from './objects.fixture.ts';
import { freePort, outputOf, sluicePath, until } from './program.fixture.ts';
import {
  cluster,
  dir,
  endWatch,
  isThere as isPublished,
  kubeconfig,
  startWatch,
  watchedCluster,
} from './watched.fixture.ts';

/** `sluice watch --release`: the Services of a release, with the endpoints of the API server. */

const path = (...names: readonly string[]): string => join(dir, ...names);

watchedCluster();
beforeEach(() => writeFileSync(path('sluice.yaml'), sluiceYaml('10.244.0.0/16')));

const sluiceYaml = (pods: string): string =>
  `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nprofiles: [{ name: default, families: [ipv4], clusterCIDR: ${pods} }]\n`;
const config = (): readonly string[] => ['-c', path('sluice.yaml')];

const renderTo = (output: string, ...more: readonly string[]): PromiseLike<unknown> =>
  execa(sluicePath, ['render', '--from-cluster', '--kubeconfig', kubeconfig(), ...config(), '-o', output, ...more]);

/** Makes the next release of what the cluster has now. */
async function release(...more: readonly string[]): Promise<void> {
  await renderTo(path('rendered'), ...more);
  const terms = ['--serial', 'auto', '--source', 'c'.repeat(40), ...more];
  await execa(sluicePath, ['release', path('rendered'), ...terms, '-o', path('release')]);
}

/** @returns its output up to now */
const watch = (...more: readonly string[]): (() => string) =>
  outputOf(startWatch('--node', 'node-a', '--release', path('release'), '-o', path('live'), ...config(), ...more));

const isThere = (): boolean => isPublished(path('live'));
const fileOf = (name: string): string => {
  const at = path('live', 'profiles/default/services/shop', `${name}.iptables`);
  return existsSync(at) ? readFileSync(at, 'utf8') : '';
};
const endpointsOf = (name: string): readonly string[] => fileOf(name).match(/(?<=--to-destination )\S+/g) ?? [];
const has =
  (name: string, ...endpoints: readonly string[]) =>
  (): boolean =>
    isThere() && endpointsOf(name).join() === endpoints.join();
const sliceOf = (name: string, ...addresses: readonly string[]): ApiObject => ({
  ...slice,
  metadata: { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
  endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true }, nodeName: 'node-a' })),
});

test('renders the Services of the release with the endpoints of the cluster, and says how the cluster differs', {
  timeout: 60_000,
}, async () => {
  await release();
  cluster.put('services', serviceOf('new', 2));
  cluster.put('endpointslices', sliceOf('new', '10.244.1.9'));
  const other = serviceOf('a', 1);
  cluster.put('services', { ...other, spec: { ...(other['spec'] as ApiObject), externalIPs: ['203.0.113.1'] } });
  const port = await freePort();
  const text = watch('--listen', `127.0.0.1:${port}`, '--log-format', 'json');
  await until(has('a', '10.244.1.5:8080'));
  expect(readdirSync(path('live', 'profiles/default/services/shop'))).toEqual(['a.iptables']);
  expect(fileOf('a')).not.toContain('203.0.113.1');
  await until(() => text().includes('release 1: 1 Services of the cluster are not in the release'));
  expect(text()).toContain('shop/new');
  expect(text()).toContain('release 1: 1 Services have other addresses, ports or policies in the cluster');
  const get = async (what: string): Promise<string> => (await fetch(`http://127.0.0.1:${port}/${what}`)).text();
  const metrics = await get('metrics');
  const leftOut = readQuarantine(readFileSync(path('live', quarantineFile), 'utf8'));
  expect([...leftOut]).toEqual([['shop/new', ['RELEASE_WITHOUT_SERVICE']]]);
  expect(metrics).toContain('sluice_watch_services_unlike_release{state="unknown"} 1');
  expect(metrics).toContain('sluice_watch_services_unlike_release{state="differing"} 1');
  expect(metrics).toContain('sluice_watch_services_unlike_release{state="withdrawn"} 0');
  expect(await get('healthz')).toBe('ok\n');

  cluster.put('endpointslices', sliceOf('a', '10.244.1.6', '10.244.1.7'));
  await until(has('a', '10.244.1.6:8080', '10.244.1.7:8080'));
  await release();
  await until(has('new', '10.244.1.9:8080'));
  expect(fileOf('a')).toContain('203.0.113.1');
  await until(async () => (await get('metrics')).includes('sluice_watch_services_unlike_release{state="unknown"} 0'));
  expect(existsSync(path('live', quarantineFile))).toBe(false);
});

test('sluice diff shows Services that the cluster alone has, and those that it has otherwise', {
  timeout: 60_000,
}, async () => {
  await release();
  cluster.put('services', serviceOf('new', 2));
  cluster.put('endpointslices', sliceOf('new', '10.244.1.9'));
  const other = serviceOf('a', 1);
  cluster.put('services', { ...other, spec: { ...(other['spec'] as ApiObject), externalIPs: ['203.0.113.1'] } });
  // As docs/cluster.md has it.
  await renderTo(path('cluster'));
  const { stdout } = await execa(sluicePath, ['diff', path('release'), path('cluster')], { reject: false });
  expect(stdout).toContain('shop/new');
  expect(stdout).toContain('203.0.113.1');
  const { stdout: same } = await execa(sluicePath, ['diff', path('release'), path('release')], { reject: false });
  expect(same).not.toContain('shop/');
});

test.each([
  ['keep', ['10.244.1.6:8080']],
  ['drop', []],
])('--withdrawn %s: endpoints of a Service that the cluster lacks', { timeout: 60_000 }, async (how, left) => {
  cluster.put('services', serviceOf('b', 2));
  cluster.put('endpointslices', sliceOf('b', '10.244.1.8'));
  await release();
  watch('--withdrawn', how);
  await until(has('a', '10.244.1.5:8080'));
  cluster.put('endpointslices', sliceOf('a', '10.244.1.6'));
  await until(has('a', '10.244.1.6:8080'));
  cluster.remove('services', 'a');
  cluster.remove('endpointslices', 'a-1');
  cluster.put('endpointslices', sliceOf('b', '10.244.1.9'));
  await until(has('b', '10.244.1.9:8080'));
  await until(has('a', ...left));
  // Another process keeps what this one left.
  await endWatch();
  watch('--withdrawn', how);
  cluster.put('endpointslices', sliceOf('b', '10.244.1.10'));
  await until(has('b', '10.244.1.10:8080'));
  expect(endpointsOf('a')).toEqual(left);
});

test('200 Services that are deleted in one burst keep their endpoints, are counted, and are followed again once they are back', {
  timeout: 180_000,
}, async () => {
  const names = Array.from({ length: 200 }, (_one, at) => `s${at}`);
  const fill = (address: string): void => {
    for (const [at, name] of names.entries()) {
      cluster.put('services', serviceOf(name, at + 2));
      cluster.put('endpointslices', sliceOf(name, address));
    }
  };
  fill('10.244.1.8');
  await release();
  const port = await freePort();
  const text = watch('--listen', `127.0.0.1:${port}`, '--log-format', 'json');
  const get = async (what: string): Promise<string> => (await fetch(`http://127.0.0.1:${port}/${what}`)).text();
  await until(has('s199', '10.244.1.8:8080'), 60_000);
  for (const name of names) {
    cluster.remove('services', name);
    cluster.remove('endpointslices', `${name}-1`);
  }
  cluster.put('endpointslices', sliceOf('a', '10.244.1.6'));
  await until(has('a', '10.244.1.6:8080'), 60_000);
  await until(async () =>
    (await get('metrics')).includes('sluice_watch_services_unlike_release{state="withdrawn"} 200'),
  );
  expect(names.filter((name) => endpointsOf(name).join() !== '10.244.1.8:8080')).toEqual([]);
  expect(await get('healthz')).toBe('ok\n');
  const lines = text().split('\n');
  expect(lines.filter((line) => line.includes('200 Services of the release are not in the cluster'))).toHaveLength(1);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThan(2_000);
  fill('10.244.1.9');
  await until(has('s199', '10.244.1.9:8080'), 60_000);
});

test('most Services go with a release that lacks them, and with nothing less', { timeout: 60_000 }, async () => {
  const names = Array.from({ length: 12 }, (_one, index) => `s${index}`);
  for (const [index, name] of names.entries()) {
    cluster.put('services', serviceOf(name, 10 + index));
    cluster.put('endpointslices', sliceOf(name, `10.244.1.${10 + index}`));
  }
  await release();
  const text = watch();
  await until(() => isThere() && names.every((name) => endpointsOf(name).length === 1));
  for (const name of names) {
    cluster.remove('services', name);
    cluster.remove('endpointslices', `${name}-1`);
  }
  await until(() => text().includes('12 Services of the release are not in the cluster'));
  expect(names.filter((name) => endpointsOf(name).length === 0)).toEqual([]);
  await release('--accept-removal');
  await until(() => names.every((name) => fileOf(name) === ''));
  expect(text()).not.toContain('REMOVAL_HELD');
});

test('waits for a release, and renders none with another profile than its own', { timeout: 60_000 }, async () => {
  const text = watch();
  await until(() => text().includes('SHA256SUMS is missing'));
  expect(isThere()).toBe(false);
  await release();
  await until(has('a', '10.244.1.5:8080'));
  await endWatch();
  writeFileSync(path('sluice.yaml'), sluiceYaml('10.244.0.0/15'));
  const next = watch();
  await until(() => next().includes('the config makes another profile of this node than its profile default'));
  expect(endpointsOf('a')).toEqual(['10.244.1.5:8080']);
});

test('a release is followed for one node alone', { timeout: 30_000 }, async () => {
  expect(await startWatch('--release', path('release'), '-o', path('live'))).toMatchObject({
    all: expect.stringContaining("option '--release <DIR>' needs '--node <NAME>'"),
  });
});
