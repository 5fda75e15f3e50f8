// @module-tag test
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { completeFile, serviceFile } from '@sluice/bundle';
import { listTree } from '../../packages/renderer/src/load/tree.ts';
import { type ApiObject, token } from './apiserver.fixture.ts';
import { LiveCluster } from './live.fixture.ts';
import { node, serviceOf, slice } from './objects.fixture.ts';
import { freePort, type Started, startSluice, until } from './program.fixture.ts';

let cluster: LiveCluster;
let dir: string;
let out: string;
let port: number;
let watching: Started | undefined;

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

beforeEach(async () => {
  cluster = await LiveCluster.start();
  dir = mkdtempSync(join(tmpdir(), 'sluice-watch-'));
  out = join(dir, 'rendered');
  port = await freePort();
  fill();
  cluster.put('nodes', node);
});
afterEach(async () => {
  await stop();
  await cluster.server.close();
  rmSync(dir, { recursive: true });
});

async function start(...more: readonly string[]): Promise<void> {
  const kubeconfig = cluster.server.kubeconfig({ token });
  watching = startSluice(
    ['watch', '-o', out, '--kubeconfig', kubeconfig, '--listen', `127.0.0.1:${port}`, ...more],
    dir,
  );
  await until(() => existsSync(join(out, completeFile)));
}
async function stop(): Promise<void> {
  watching?.kill('SIGTERM');
  await watching;
  watching = undefined;
}

const services = (): number => listTree(out).filter((path) => path.includes('/services/')).length;
const textOf = (name: string): string =>
  readFileSync(join(out, serviceFile('default', 'shop', name, 'iptables')), 'utf8');
const ask = async (path: string): Promise<{ status: number; text: string }> => {
  const response = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: response.status, text: await response.text() };
};
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
  await stop();
  cluster.lose('services');
  await start();
  await until(isHeld);
  expect(services()).toBe(12);
  await stop();
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
  await stop();
  await start('--removal-hold', '0s');
  cluster.lose('services');
  await until(() => services() === 0);
}, 120_000);
