// @module-tag test
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { serviceFile } from '@sluice/bundle';
import { listTree } from '../../packages/renderer/src/load/tree.ts';
import type { ApiObject } from './apiserver.fixture.ts';
import { serviceOf, slice } from './objects.fixture.ts';
import { until } from './program.fixture.ts';
import { ask, cluster, endWatch, isThere, out, port, startWatch, watchedCluster } from './watched.fixture.ts';

const names = Array.from({ length: 12 }, (_, index) => `s${index}`);
const endpointsOf = (name: string, address: string): ApiObject => ({
  ...slice,
  metadata: { name: `${name}-1`, namespace: 'shop', labels: { 'kubernetes.io/service-name': name } },
  endpoints: [{ addresses: [address], conditions: { ready: true }, nodeName: 'node-a' }],
});
const fill = (address = '10.244.1.5'): void => {
  for (const [index, name] of names.entries()) {
    cluster.put('services', serviceOf(name, index + 1));
    cluster.put('endpointslices', endpointsOf(name, address));
  }
};

watchedCluster(fill);

async function start(...more: readonly string[]): Promise<void> {
  void startWatch('-o', out, '--listen', `127.0.0.1:${port}`, ...more);
  await until(isThere);
}

const services = (): number => listTree(out).filter((path) => path.includes('/services/')).length;
const textOf = (name: string): string =>
  readFileSync(join(out, serviceFile('default', 'shop', name, 'iptables')), 'utf8');
const isHeld = async (): Promise<boolean> =>
  (await ask('/metrics').catch(() => ({ text: '' }))).text.includes('\nsluice_watch_removal_held 1\n');

test('keeps Services that a restored API server lacks, is unhealthy, and goes on when they are back', async () => {
  await start();
  cluster.lose('services');
  cluster.lose('endpointslices');
  await until(isHeld);
  await until(async () => (await ask('/healthz')).status === 503, 30_000);
  expect((await ask('/healthz')).text).toMatch(/^REMOVAL_HELD: Cannot take away 12 of 12 Services/);
  expect((await ask('/livez')).status).toBe(200);
  expect(services()).toBe(12);
  fill('10.244.1.6');
  await until(() => textOf('s3').includes('10.244.1.6'));
  await until(async () => (await ask('/healthz')).status === 200);
  expect(await isHeld()).toBe(false);
}, 120_000);

test('keeps them also at its start, until it is told that they are gone', async () => {
  await start();
  await endWatch();
  cluster.lose('services');
  await start();
  await until(isHeld);
  expect(services()).toBe(12);
  await endWatch();
  await start('--accept-removal');
  await until(() => services() === 0);
  expect(await isHeld()).toBe(false);
}, 120_000);

test('keeps the endpoints of all Services where slices cannot be seen, until that has stood', async () => {
  await start('--removal-hold', '6s');
  cluster.lose('endpointslices');
  await until(isHeld);
  for (const name of names) expect(textOf(name)).toContain('10.244.1.5');
  // A new Service is none of them.
  cluster.put('services', serviceOf('new', 90));
  await until(() => services() === 13);
  await until(() => textOf('s3').includes('has no endpoints'), 30_000);
  await until(async () => !(await isHeld()));
}, 120_000);

test('removes fewer Services, or where nothing is held, at once', async () => {
  await start();
  for (const name of names.slice(0, 6)) cluster.remove('services', name);
  await until(() => services() === 6);
  expect(await isHeld()).toBe(false);
  await endWatch();
  await start('--removal-hold', '0s');
  cluster.lose('services');
  await until(() => services() === 0);
}, 120_000);
